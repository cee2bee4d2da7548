// What CBMC proves of the operators' loaders, of sound, motion, sequences and tables: see operators.c.
#include "asked.h"
#include "op_attention.c"
#include "op_audio.c"
#include "op_axes.c"
#include "op_pcen.c"
#include "op_recurrent.c"
#include "op_tabular.c"
#include "op_vectors.c"

// --- sound: x [samples], y [frames, columns], all other dimensions are 1

#define COLUMNS r.y.dims[r.y.rank - 1]
#define FRAMES r.y.dims[r.y.rank - 2]
#define SOUND(s) \
    (ones(&r.x[0], 1) && r.x[0].rank >= 1 && ones(&r.y, 2) && (s)->samples == last(&r.x[0]) && ONE(s) \
        && scratch_asked == sized && constants)
// With noise, y has four more rows for it.
#define NOISE(frames) \
    (r.n_inputs < 2 ? p->noise == NULL && (frames) == FRAMES \
        : p->noise == r.x[1].data && r.x[1].bytes == 4 * COLUMNS && FRAMES == (frames) + 4u && (frames) >= 1)
#define TABLES(s) \
    ((const void *)(s)->window == places[0] && lengths[0] == (size_t)(s)->frame * 2 \
        && (const void *)(s)->twiddles == places[1] && lengths[1] == (size_t)(s)->fft * 2 + 4 \
        && (const void *)(s)->filters == places[2] && lengths[2] == (size_t)(s)->bands * 4 \
        && (const void *)(s)->gains == places[3] && lengths[3] == (size_t)(s)->n_gains * 2)

static size_t dct_bytes;

KERNEL(log_mel, log_mel_s8, SOUND(p) && TABLES(p) && p->frames == FRAMES && p->out_n == COLUMNS
    && HAS(dct, LOG_MEL_S8_BLOB_DCT, dct_bytes) && HAS(bias, LOG_MEL_S8_BLOB_BIAS, (size_t)p->out_n * 4),
    p->samples, p->frames, p->pad, p->frame, p->hop, p->fft, p->bands, p->out_n, p->n_gains, p->flags,
    p->preemphasis, p->floor, p->floor_exponent, p->mult, p->shift, CLAMP)
SIZE(log_mel, log_mel_s8, scratch_bytes, uint32_t)

size_t mica_log_mel_s8_dct_bytes(const mica_log_mel_s8_t *p) {
    __CPROVER_assert(same(numbers_log_mel(p)), "a size of shapes that were accepted");
    return dct_bytes = nondet_u32();
}

#define PREPARE(name) \
    void mica_##name##_prepare(mica_##name##_t *p) { \
        (void)p; \
        __CPROVER_assert(constants, "constants are accepted"); \
    }
PREPARE(log_mel_s8)

KERNEL(pcan, pcan_s8, SOUND(p) && NOISE(p->frames) && p->bands == COLUMNS
    && HAS(window, PCAN_S8_BLOB_WINDOW, (size_t)p->frame * 2)
    && HAS(twiddles, PCAN_S8_BLOB_TWIDDLES, (size_t)p->fft * 3)
    && HAS(filters, PCAN_S8_BLOB_FILTERS, (size_t)p->bands * 4 + 4)
    && HAS(gains, PCAN_S8_BLOB_GAINS, (size_t)p->n_gains * 4) && HAS(lut, PCAN_S8_BLOB_LUT, 250)
    && HAS(logs, PCAN_S8_BLOB_LOGS, 258), p->samples, p->frames, p->frame, p->hop, p->fft, p->bands, p->n_gains,
    p->even, p->odd, p->places, p->least, p->snr_shift, p->correction, p->log_places, p->mult, p->shift, CLAMP)
SIZE(pcan, pcan_s8, scratch_bytes, uint32_t)

KERNEL(pcen, pcen_s8, SOUND(&p->sound) && NOISE(p->sound.frames) && TABLES(&p->sound) && p->sound.out_n == COLUMNS
    && HAS(curve, PCEN_S8_BLOB_CURVE, (size_t)p->points * 2), p->sound.samples, p->sound.frames, p->sound.pad,
    p->sound.frame, p->sound.hop, p->sound.fft, p->sound.bands, p->sound.out_n, p->sound.n_gains, p->sound.flags,
    p->sound.preemphasis, p->sound.mult, p->smooth, p->alpha, p->points, p->places)
SIZE(pcen, pcen_s8, scratch_bytes, uint32_t)
PREPARE(pcen_s8)

// --- motion: x [rows, axes], or [rows] of one axis; y [axes, each], across [each, axes]

static bool of_axes(const mica_tensor_t *x, const mica_tensor_t *y, const mica_axes_s8_t *p) {
    const uint32_t *end = y->dims + y->rank;
    const bool flat = p->axes == 1 && ones(x, 1) && last(x) == p->rows;
    const bool whole = ones(x, 2) && last(x) == p->axes && x->dims[x->rank - 2] == p->rows;
    return x->rank >= 1 && (flat || whole) && ones(y, 2)
        && (p->flags & MICA_AXES_ACROSS ? end[-1] == p->axes && end[-2] == p->each
            : end[-1] == p->each && end[-2] == p->axes);
}

KERNEL(axes, axes_s8, ONE(p) && constants && of_axes(&r.x[0], &r.y, p) && scratch_asked == sized
    && HAS(tables, AXES_S8_BLOB_TABLES, p->bands ? 2 * (size_t)(p->fft + 2 + p->rows) : 0)
    && HAS(filters, AXES_S8_BLOB_FILTERS, (size_t)p->bands * 4)
    && HAS(least, AXES_S8_BLOB_LEAST, p->bands ? (size_t)p->axes * 4 : 0)
    && HAS(bias, AXES_S8_BLOB_BIAS, (size_t)times(p->axes, p->each) * 4)
    && HAS(mult, AXES_S8_BLOB_MULT, (size_t)times(p->axes, p->each) * 4)
    && HAS(shift, AXES_S8_BLOB_SHIFT, times(p->axes, p->each)), p->rows, p->axes, p->stats, p->bands, p->fft,
    p->energy, p->places, p->flags, p->each, CLAMP)
SIZE(axes, axes_s8, scratch_bytes, uint32_t)
PREPARE(axes_s8)

// --- sequences

// Initial states are [1, batch, units], carried ones of 16 bits; the last states lie before the output.
static bool of_steps(const mica_step_record_t *r, const mica_recurrent_s8_t *p) {
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    bool found = x->rank == 3 && p->time == x->dims[0] && p->batch == x->dims[1] && p->in_n == x->dims[2]
        && y->rank == 3 && y->dims[0] == mica_recurrent_s8_ahead(p) + (p->every ? p->time : 1)
        && y->dims[1] == p->batch && y->dims[2] == p->units && p->initial == r->n_inputs - 1;
    for (uint32_t k = 1; k < MICA_MAX_INPUTS; ++k) {
        const mica_tensor_t *t = &r->x[k];
        found = found && (k > p->initial || (t->rank == 3 && t->dims[0] == 1 && t->dims[1] == p->batch
            && t->dims[2] == (uint32_t)p->units << p->carried));
    }
    return found && p->h0 == r->x[1].data && p->c0 == r->x[2].data;
}
static uint32_t terms, channels;
static size_t matrix;

KERNEL(recurrent, recurrent_s8, ONE(p) && constants && of_steps(&r, p)
    && HAS(weights, RECURRENT_S8_BLOB_MATRIX, matrix) && HAS(terms, RECURRENT_S8_BLOB_TERMS, (size_t)terms * 4)
    && HAS(shifts, RECURRENT_S8_BLOB_SHIFTS, channels)
    && HAS(gate, RECURRENT_S8_BLOB_GATE, p->cell == MICA_CELL_RNN ? 0 : 514)
    && HAS(candidate, RECURRENT_S8_BLOB_CANDIDATE, 514)
    && HAS(output, RECURRENT_S8_BLOB_OUTPUT, p->cell == MICA_CELL_LSTM ? 514 : 0), p->cell, p->initial, p->cell_shift,
    p->output_shift, p->reverse, p->every, p->cell_result, p->carried, p->coupled, p->peepholes, p->time, p->batch,
    p->in_n, p->units, p->in_mult, p->in_shift, p->out_mult, p->out_shift)
#define OF_CELL(suffix, type, variable) \
    type mica_recurrent_s8_##suffix(const mica_recurrent_s8_t *p) { \
        __CPROVER_assert(same(numbers_recurrent(p)), "a size of shapes that were accepted"); \
        return variable = nondet_u32(); \
    }
OF_CELL(weights_bytes, size_t, matrix)
OF_CELL(terms, uint32_t, terms)
OF_CELL(channels, uint32_t, channels)

// Queries, keys, values and output have the same heads.
static bool of_heads(const mica_step_record_t *r, const mica_attend_s8_t *p) {
    const mica_tensor_t *q = &r->x[0], *k = &r->x[1], *v = &r->x[2], *y = &r->y;
    const uint32_t rank = y->rank, at = rank - 2;
    bool found = rank >= 2 && q->rank == rank && k->rank == rank && v->rank == rank && p->heads == product(y, 0, at);
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        const uint32_t n = y->dims[i];
        found = found && (i >= at || (q->dims[i] == n && k->dims[i] == n && v->dims[i] == n));
    }
    return found && q->dims[at] == p->m && y->dims[at] == p->m && k->dims[at] == p->t && v->dims[at] == p->t
        && last(q) == p->d && last(k) == p->d && last(v) == p->e && last(y) == p->e;
}
KERNEL(attend, attend_s8, of_heads(&r, p) && constants && p->q == r.x[0].data && p->k == r.x[1].data
    && p->v == r.x[2].data && (const void *)p->length == r.x[3].data && r.x[3].bytes == 4 && p->y == r.y.data
    && HAS(table, ATTEND_S8_BLOB_TABLE, 514) && scratch_asked == sized, p->heads, p->limit, p->fall, p->mult, p->m,
    p->t, p->d, p->e, p->fall_shift, p->shift, p->more, CLAMP)
SIZE(attend, attend_s8, scratch_bytes, uint32_t)

KERNEL(rotate, rotate_s8, ONE(p) && alike(&r.x[0], &r.y, 9) && alike(&r.x[1], &r.x[2], 9) && p->c == r.x[1].data
    && p->s == r.x[2].data && r.x[0].rank >= 1 && r.x[1].rank >= 1 && p->half == last(&r.x[1])
    && 2 * p->half == last(&r.y) && p->rows == product(&r.x[0], 0, r.x[0].rank - 1u)
    && p->turns == product(&r.x[1], 0, r.x[1].rank - 1u), p->rows, p->half, p->turns, p->inner, p->mult_c, p->mult_s,
    p->shift, CLAMP)

// --- tables

#define MATRIX(in, out) \
    (alike(&r.x[0], &r.y, r.y.rank - 1u) && r.y.rank >= 1 && p->rows == product(&r.y, 0, r.y.rank - 1u) \
        && p->in == last(&r.x[0]) && p->out == last(&r.y) && ONE(p) && constants)

KERNEL(features, features_s8, MATRIX(n, n) && HAS(scale, FEATURES_S8_BLOB_SCALE, (size_t)p->n * 4)
    && HAS(exponent, FEATURES_S8_BLOB_EXPONENT, p->n) && HAS(offset, FEATURES_S8_BLOB_OFFSET, (size_t)p->n * 4)
    && HAS(missing, FEATURES_S8_BLOB_MISSING, p->n), p->rows, p->n, CLAMP)
KERNEL(ranks, ranks_s8, MATRIX(in_n, out_n) && HAS(thresholds, RANKS_S8_BLOB_THRESHOLDS, (size_t)p->n_thresholds * 4)
    && HAS(first, RANKS_S8_BLOB_FIRST, (size_t)p->out_n * 4 + 4) && HAS(missing, RANKS_S8_BLOB_MISSING, p->out_n)
    && HAS(source, RANKS_S8_BLOB_SOURCE, (size_t)p->out_n * 2), p->rows, p->n_thresholds, p->in_n, p->out_n)
KERNEL(trees, trees_s8, MATRIX(in_n, out_n) && HAS(nodes, TREES_S8_BLOB_NODES, (size_t)p->words * 2)
    && HAS(roots, TREES_S8_BLOB_ROOTS, (size_t)p->trees * 4) && HAS(bias, TREES_S8_BLOB_BIAS, (size_t)p->out_n * 4),
    p->rows, p->words, p->trees, p->in_n, p->out_n, p->mult, p->shift, CLAMP)
KERNEL(forest, forest_s8, MATRIX(in_n, out_n) && HAS(nodes, FOREST_S8_BLOB_NODES, (size_t)p->words * 4)
    && HAS(roots, FOREST_S8_BLOB_ROOTS, (size_t)p->trees * 4)
    && HAS(leaves, FOREST_S8_BLOB_LEAVES, (size_t)p->units * 4)
    && HAS(bias, FOREST_S8_BLOB_BIAS, (size_t)p->out_n * 4), p->rows, p->words, p->trees, p->units, p->in_n,
    p->out_n, p->mult, p->shift, CLAMP)
KERNEL(distances, distances_s8, MATRIX(in_n, out_n)
    && HAS(points, DISTANCES_S8_BLOB_POINTS, (size_t)times(p->in_n, p->out_n) * 2)
    && HAS(scale, DISTANCES_S8_BLOB_SCALE, (size_t)p->in_n * 4)
    && HAS(exponent, DISTANCES_S8_BLOB_EXPONENT, p->in_n)
    && HAS(offset, DISTANCES_S8_BLOB_OFFSET, (size_t)p->in_n * 4)
    && HAS(missing, DISTANCES_S8_BLOB_MISSING, (size_t)p->in_n * 2), p->rows, p->in_n, p->out_n, p->kind, p->bound)
KERNEL(nearest, nearest_s8, MATRIX(in_n, out_n) && HAS(target, NEAREST_S8_BLOB_TARGET, (size_t)p->in_n * 2)
    && HAS(value, NEAREST_S8_BLOB_VALUE, (size_t)p->in_n * 2), p->rows, p->in_n, p->out_n, p->k, p->kind, p->mult,
    p->shift, CLAMP)
KERNEL(machine, machine_s8, MATRIX(in_n, out_n) && HAS(table, MACHINE_S8_BLOB_TABLE, 1028)
    && HAS(factors, MACHINE_S8_BLOB_FACTORS, (size_t)times(p->in_n, p->out_n) * 2)
    && HAS(bias, MACHINE_S8_BLOB_BIAS, (size_t)p->out_n * 4), p->rows, p->in_n, p->out_n, p->in_mult, p->in_shift,
    p->in_offset, p->down, p->mult, p->shift, CLAMP)

// What CBMC proves of the operators' loaders that have no window: see operators.c.
#include "asked.h"
#include "op_elementwise.c"
#include "op_movement.c"
#include "op_norm.c"
#include "op_reduce.c"
#include "op_resize.c"
#include "op_softmax.c"

// --- two inputs that broadcast

KERNEL(add, add_s8, BROADCAST, SHAPE(p->shape), p->mult_a, p->mult_b, p->offset, p->shift, CLAMP)
KERNEL(mul, mul_s8, BROADCAST, SHAPE(p->shape), p->mult, p->shift, CLAMP)
KERNEL(minmax, minmax_s8, BROADCAST, SHAPE(p->shape), p->mult_a, p->mult_b, p->offset_a, p->offset_b, p->shift,
    p->larger, CLAMP)
KERNEL(div, div_s8, BROADCAST, SHAPE(p->shape), p->factor, p->shift, CLAMP)
KERNEL(lut, lut_s8, ONE(p) && alike(&r.x[0], &r.y, 9) && p->n == r.y.bytes && HAS(table, LUT_S8_BLOB_TABLE, 256), p->n)

// --- rows, and axes: outer, n, inner

#define AXIS(NAME) ((uint32_t)params[MICA_##NAME##_PARAM_AXIS])
#define SPLIT(t, axis, axes) \
    (p->outer == product(t, 0, axis) && p->n == product(t, axis, (axis) + (axes)) \
        && p->inner == product(t, (axis) + (axes), (t)->rank))
#define ROWS_OF(t) (p->axis == last(t) && p->rows == divided((t)->bytes, last(t)))

KERNEL(softmax, softmax_s8, ONE(p) && constants && alike(&r.x[0], &r.y, 9) && ROWS_OF(&r.y)
    && HAS(table, SOFTMAX_S8_BLOB_TABLE, p->wide ? 2048 : 1024), p->rows, p->axis, p->wide)
KERNEL(log_softmax, log_softmax_s8, ONE(p) && constants && (p->sum || alike(&r.x[0], &r.y, 9)) && ROWS_OF(&r.x[0])
    && HAS(table, LOG_SOFTMAX_S8_BLOB_TABLE, 1024) && r.y.bytes == sized, p->rows, p->axis, p->sum, p->mult,
    p->mult_log, p->offset, p->shift, CLAMP)
SIZE(log_softmax, log_softmax_s8, y_bytes, size_t)
KERNEL(reduce, reduce_s8, ONE(p) && SPLIT(&r.x[0], AXIS(REDUCE_S8), (uint32_t)params[MICA_REDUCE_S8_PARAM_AXES])
    && r.y.bytes == sized, p->outer, p->n, p->inner, p->mode, p->mult, p->shift, p->bias, CLAMP)
SIZE(reduce, reduce_s8, rows, uint32_t)
KERNEL(argmax, argmax_s8, ONE(p) && SPLIT(&r.x[0], AXIS(ARGMAX_S8), 1) && r.y.bytes == sized, p->outer, p->n, p->inner,
    p->minimum, p->select_last)
SIZE(argmax, argmax_s8, y_bytes, size_t)
KERNEL(top_k, top_k_s8, ONE(p) && alike(&r.x[0], &r.y, AXIS(TOP_K_S8)) && SPLIT(&r.x[0], AXIS(TOP_K_S8), 1)
    && p->k == r.y.dims[AXIS(TOP_K_S8)], p->outer, p->n, p->inner, p->k, p->smallest)

#define NORMAL(NAME) \
    (ONE(p) && constants && alike(&r.x[0], &r.y, 9) && p->rows == product(&r.x[0], 0, AXIS(NAME)) \
        && p->n == product(&r.x[0], AXIS(NAME), r.x[0].rank))

KERNEL(layer_norm, layer_norm_s8, NORMAL(LAYER_NORM_S8)
    && HAS(gamma, LAYER_NORM_S8_BLOB_GAMMA, (size_t)p->channels * 4)
    && HAS(beta, LAYER_NORM_S8_BLOB_BETA, (size_t)p->channels * 4), p->rows, p->n, p->inner, p->channels, p->mode,
    (int64_t)p->epsilon, p->shift, CLAMP)
KERNEL(norm, norm_s8, NORMAL(NORM_S8) && HAS(terms, NORM_S8_BLOB_TERMS, (size_t)p->n * (p->each ? 8 : 4)), p->rows,
    p->n, p->mode, p->each, p->fraction, p->epsilon, p->factor, p->up, p->offset, CLAMP)

// --- elements that move

#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define BELOW_RANK(i) && (i >= p->rank || (PLACE(i)))

#define PLACE(i) p->y_dims[i] == r.y.dims[i] && p->perm[i] < p->rank && r.y.dims[i] == r.x[0].dims[p->perm[i]]
static bool permuted(mica_step_record_t r, const mica_transpose_s8_t *p) {
    return ONE(p) && p->rank == r.y.rank && r.x[0].rank == r.y.rank EACH(BELOW_RANK);
}
#undef PLACE
#define PLACE(i) p->y_dims[i] == r.y.dims[i] && p->x_dims[i] == r.x[0].dims[i]
static bool padded(mica_step_record_t r, const mica_pad_s8_t *p) {
    return ONE(p) && p->rank == r.y.rank && r.x[0].rank == r.y.rank EACH(BELOW_RANK);
}
#undef PLACE
#define SIX(a) (a)[0], (a)[1], (a)[2], (a)[3], (a)[4], (a)[5]

KERNEL(transpose, transpose_s8, permuted(r, p), p->rank, SIX(p->perm), SIX(p->y_dims))
KERNEL(pad, pad_s8, padded(r, p), p->rank, p->mode, SIX(p->begin), SIX(p->x_dims), SIX(p->y_dims))

#define STRIDES(i) p->dim[i].n, p->dim[i].stride,
KERNEL(move, move_s8, ONE(p) && p->x_n == r.x[0].bytes && r.y.bytes == sized
    && lengths[MICA_MOVE_S8_BLOB_MAP] == (size_t)p->rank * 8, EACH(STRIDES) p->x_n, p->begin, p->rank)
SIZE(move, move_s8, y_bytes, size_t)

// Every input but for its axis is as the output, whose axis is theirs together.
static bool joined(const mica_step_record_t *r, const mica_concat_s8_t *p) {
    const uint32_t axis = AXIS(CONCAT_S8), inner = product(&r->y, axis + 1, r->y.rank);
    bool found = p->n == r->n_inputs && p->rows == product(&r->y, 0, axis);
    uint32_t total = 0;
    for (uint32_t k = 0; k < MICA_MAX_INPUTS; ++k) {
        const mica_tensor_t *x = &r->x[k];
        found = found && (k >= p->n
            || (p->x[k] == x->data && p->part[k] == times(x->dims[axis], inner) && alike(x, &r->y, axis)));
        total += k < p->n ? x->dims[axis] : 0;
    }
    return found && total == r->y.dims[axis] && (void *)p->y == r->y.data;
}
KERNEL(concat, concat_s8, joined(&r, p), p->n, p->part[0], p->part[1], p->part[2], p->part[3], p->rows)

#define AROUND(axis) (p->rows == product(&r.y, 0, axis) && p->inner == product(&r.y, (axis) + 1, r.y.rank))

KERNEL(gather, gather_s8, ONE(p) && constants && AROUND(AXIS(GATHER_S8)) && alike(&r.x[0], &r.y, AXIS(GATHER_S8))
    && p->x_n == r.x[0].dims[AXIS(GATHER_S8)] && p->y_n == r.y.dims[AXIS(GATHER_S8)]
    && HAS(indices, GATHER_S8_BLOB_INDICES, (size_t)p->y_n * 4), p->rows, p->inner, p->x_n, p->y_n)
KERNEL(scatter, scatter_s8, ONE(p) && AROUND(AXIS(SCATTER_S8)) && alike(&r.x[0], &r.y, 9)
    && alike(&r.x[1], &r.y, AXIS(SCATTER_S8)) && p->rows_of == r.x[1].data && p->index == r.x[2].data
    && p->x_n == r.x[0].dims[AXIS(SCATTER_S8)] && p->r_n == r.x[1].dims[AXIS(SCATTER_S8)]
    && (r.x[2].bytes / 4 == 1 || (AXIS(SCATTER_S8) > 0 && r.x[2].bytes / 4 == r.y.dims[0]))
    && p->per_index == divided(p->rows, r.x[2].bytes / 4), p->rows, p->inner, p->per_index, p->x_n, p->r_n,
    p->circular)
KERNEL(embedding, embedding_s8, ONE(p) && r.y.rank == r.x[0].rank + 1 && p->width == last(&r.y)
    && p->rows == divided(r.y.bytes, last(&r.y)) && HAS(table, EMBEDDING_S8_BLOB_TABLE, sized), p->rows, p->width,
    p->vocabulary)
SIZE(embedding, embedding_s8, table_bytes, size_t)

// Places are as the output, or repeat behind the axis.
static bool placed(const mica_step_record_t *r, const mica_pick_s8_t *p) {
    const uint32_t axis = AXIS(PICK_S8);
    const mica_tensor_t *x = &r->x[0], *at = &r->x[1];
    bool found = at->rank == r->y.rank && alike(x, &r->y, axis) && p->k == r->y.dims[axis] && p->places == at->data;
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        found = found && at->dims[i] == (p->step || i <= axis ? r->y.dims[i] : 1);
    }
    return found && SPLIT(x, axis, 1);
}
KERNEL(pick, pick_s8, ONE(p) && placed(&r, p), p->outer, p->n, p->inner, p->k, p->step)

KERNEL(resize_linear, resize_linear_s8, ONE(p) && constants && r.x[0].rank == 4 && r.y.rank == 4
    && r.x[0].dims[0] == 1 && r.y.dims[0] == 1 && p->in_h == r.x[0].dims[1] && p->in_w == r.x[0].dims[2]
    && p->in_c == r.x[0].dims[3] && p->out_h == r.y.dims[1] && p->out_w == r.y.dims[2] && p->in_c == r.y.dims[3]
    && HAS(rows, RESIZE_LINEAR_S8_BLOB_ROWS, (size_t)p->out_h * 2)
    && HAS(columns, RESIZE_LINEAR_S8_BLOB_COLUMNS, (size_t)p->out_w * 2)
    && HAS(row_weights, RESIZE_LINEAR_S8_BLOB_ROW_WEIGHTS, (size_t)times(p->out_h, p->row_taps) * 2)
    && HAS(column_weights, RESIZE_LINEAR_S8_BLOB_COLUMN_WEIGHTS, (size_t)times(p->out_w, p->column_taps) * 2),
    p->in_h, p->in_w, p->in_c, p->out_h, p->out_w, p->row_taps, p->column_taps)

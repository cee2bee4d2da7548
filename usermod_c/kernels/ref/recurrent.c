// Simple recurrent networks, LSTM and GRU over a whole sequence; contract in mica_kernels.h.
//
// int8 in and out. Inside, gates and states are int16, so a state can move by less than an output step in each of many
// time steps. No rounding of an output comes back in the next step. A gate counts in 2^-14, a hidden state
// in 128ths of an output step, the cell state of an LSTM in whatever the host's tables and factors are made for.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_RECURRENT_S8

#include <string.h>

#include "requant.h"
#include "shape.h"

#define STATE_MAX 32767  // never -32768, so that gate * state + gate * state fits an int32

static uint32_t gates(const mica_recurrent_s8_t *p) {
    return p->cell == MICA_CELL_RNN ? 1 : p->cell == MICA_CELL_LSTM ? 4 : 3;
}

mica_status_t mica_recurrent_s8_check(const mica_recurrent_s8_t *p, const char **what) {
    if (!p->time || !p->batch || !p->in_n || !p->units) {
        *what = "a dimension is 0";
        return MICA_ERR_SHAPE;
    }
    if (mica_product(p->time, p->batch, p->in_n, 1) > MICA_MAX_BYTES
        || mica_product(p->time, p->batch, p->units, 1) > MICA_MAX_BYTES
        || (uint64_t)gates(p) * p->units * ((uint32_t)p->in_n + p->units) > MICA_MAX_BYTES) {
        *what = "too many elements";
        return MICA_ERR_SHAPE;
    }
    if (p->cell > MICA_CELL_GRU_RESET_AFTER || p->cell_shift > 15 || p->output_shift > 13) {
        *what = "unknown cell, or a shift above its limit";
        return MICA_ERR_RANGE;
    }
    if (p->cell != MICA_CELL_LSTM && (p->initial > 1 || p->cell_result || p->coupled || p->peepholes)) {
        *what = "only an LSTM has a cell state, peepholes and coupled gates";
        return MICA_ERR_RANGE;
    }
    if (p->initial > 2 || (p->every && p->cell_result)) {
        *what = "the initial states or the result disagree";
        return MICA_ERR_RANGE;
    }
    if (p->in_mult < MICA_MULT_MIN || p->in_shift < MICA_SHIFT_MIN || p->in_shift > MICA_SHIFT_MAX
        || p->out_mult < MICA_MULT_MIN || p->out_shift < MICA_SHIFT_MIN || p->out_shift > MICA_SHIFT_MAX) {
        *what = "mult is negative or shift outside -30 to 31";
        return MICA_ERR_RANGE;
    }
    return MICA_OK;
}

uint32_t mica_recurrent_s8_channels(const mica_recurrent_s8_t *p) {
    return gates(p) * p->units;
}

uint32_t mica_recurrent_s8_terms(const mica_recurrent_s8_t *p) {
    return 4 * mica_recurrent_s8_channels(p) + (p->peepholes ? 3u * p->units : 0);
}

size_t mica_recurrent_s8_weights_bytes(const mica_recurrent_s8_t *p) {
    return (size_t)mica_recurrent_s8_channels(p) * ((size_t)p->in_n + p->units);
}

// |bias| + most * sum|w| < 2^31.
static bool sum_fits(const int8_t *w, uint32_t n, int32_t bias, uint32_t most) {
    uint64_t reach = bias < 0 ? 0u - (uint32_t)bias : (uint32_t)bias;
    for (uint32_t i = 0; i < n; ++i) {
        int32_t v = w[i];
        reach += (uint64_t)most * (uint32_t)(v < 0 ? -v : v);
    }
    return reach < (uint64_t)1 << 31;
}

mica_status_t mica_recurrent_s8_check_constants(const mica_recurrent_s8_t *p, const char **what) {
    const int16_t *tables[] = { p->candidate, p->cell == MICA_CELL_RNN ? NULL : p->gate,
        p->cell == MICA_CELL_LSTM ? p->output : NULL };
    for (uint32_t k = 0; k < 3; ++k) {
        if (((uintptr_t)tables[k] & 1) || !mica_aligned4(p->terms)) {
            *what = "terms or tables are not aligned";
            return MICA_ERR_ALIGN;
        }
        for (uint32_t i = 0; tables[k] != NULL && i < MICA_TABLE_S16; ++i) {
            if (tables[k][i] < -STATE_MAX) {
                *what = "a table holds -32768";
                return MICA_ERR_RANGE;
            }
        }
    }
    uint32_t n = mica_recurrent_s8_channels(p);
    const int8_t *w = p->weights;
    for (uint32_t o = 0; o < n; ++o, w += (uint32_t)p->in_n + p->units) {
        const int32_t *term = p->terms + o;  // bias and factor of the input's part and of the recurrent part
        if (!sum_fits(w, p->in_n, term[0], 128) || !sum_fits(w + p->in_n, p->units, term[n], STATE_MAX)) {
            *what = "an accumulator can overflow: it reaches 2^31";
            return MICA_ERR_RANGE;
        }
        if (term[2 * n] < 0 || term[2 * n] >> 30 || term[3 * n] < 0 || term[3 * n] >> 30 || p->shifts[o] < 1
            || p->shifts[o] > 60) {
            *what = "a factor is outside 0 to 2^30 - 1, or its shift outside 1 to 60";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

uint32_t mica_recurrent_s8_rows(const mica_recurrent_s8_t *p) {
    (void)p;
    return 1;  // time steps follow one another, and rows of y along the batch are not contiguous
}

static int32_t clamp_state(int32_t v) {
    return mica_clamp(v, -STATE_MAX, STATE_MAX);
}

// A product of a gate. shift is 14, less where v counts in something larger than the result.
static int32_t gated(int32_t gate, int32_t v, int32_t shift) {
    return clamp_state((gate * v + (1 << (shift - 1))) >> shift);
}

static int32_t dot(int32_t acc, const int16_t *h, const int8_t *w, uint32_t n) {
    for (const int8_t *end = w + n; w != end; ++w, ++h) {
        acc += *h * *w;
    }
    return acc;
}

// A function, linear between the entries of its table: entry k stands for v = 256 * (k - 128).
static int32_t look_up(const int16_t *table, int32_t v) {
    uint32_t at = (uint32_t)(mica_clamp(v, -32768, 32767) + 32768);
    int32_t a = table[at >> 8], b = table[(at >> 8) + 1];
    return a + (((b - a) * (int32_t)(at & 255) + 128) >> 8);
}

// clamp(requant(v), low, high) as an int32; mica_requant_s8 gives an int8.
static int32_t requant(int32_t v, int32_t mult, int32_t shift, int32_t low, int32_t high) {
    int64_t r = ((int64_t)v * mult + ((int64_t)1 << (30 + shift))) >> (31 + shift);
    return r < low ? low : r > high ? high : (int32_t)r;
}

// Unit j of gate `row`, whose function is `table`. Each product is below 2^61 (an accumulator below 2^31, a factor
// below 2^30); the recurrent one below 2^62 where a reset gate (not null) multiplies it; more is below 2^46.
static int32_t gate(const mica_recurrent_s8_t *p, const int16_t *table, uint32_t row, uint32_t j, const int8_t *x,
    const int16_t *h, const int32_t *reset, int64_t more) {
    uint32_t n = mica_recurrent_s8_channels(p), o = row * p->units + j;
    const int8_t *w = p->weights + (size_t)o * ((uint32_t)p->in_n + p->units);
    const int32_t *term = p->terms + o;
    int64_t sum = (int64_t)dot(term[n], h, w + p->in_n, p->units) * term[3 * n];
    if (reset != NULL) {
        sum = (sum >> 14) * *reset;
    }
    sum += (int64_t)mica_dot(term[0], x, w, p->in_n) * term[2 * n] + more;
    int32_t shift = p->shifts[o];
    sum = (sum + ((int64_t)1 << (shift - 1))) >> shift;
    return look_up(table, sum < -32768 ? -32768 : sum > 32767 ? 32767 : (int32_t)sum);
}

typedef struct {
    int16_t *now, *next;  // hidden state of the step before, and of this one
    int16_t *inner;       // LSTM: cell state; GRU: reset * hidden
} work_t;

static void lstm_step(const mica_recurrent_s8_t *p, const work_t *k, const int8_t *x) {
    const int32_t *peep = p->terms + 4 * mica_recurrent_s8_channels(p);
    for (uint32_t j = 0; j < p->units; ++j) {
        int32_t c = k->inner[j];
        int64_t to_in = 0, to_forget = 0;
        if (p->peepholes) {
            to_in = (int64_t)c * peep[j];
            to_forget = (int64_t)c * peep[2 * p->units + j];
        }
        int32_t in = gate(p, p->gate, 0, j, x, k->now, NULL, to_in);
        int32_t candidate = gate(p, p->candidate, 3, j, x, k->now, NULL, 0);
        if (p->coupled) {  // the forget gate is 1 - in
            c += (in * (candidate - c) + (1 << 13)) >> 14;
        } else {
            int32_t forget = gate(p, p->gate, 2, j, x, k->now, NULL, to_forget);
            c = (forget * c + in * candidate + (1 << 13)) >> 14;
        }
        c = clamp_state(c);
        k->inner[j] = (int16_t)c;
        int64_t to_out = p->peepholes ? (int64_t)c * peep[p->units + j] : 0;
        int32_t out = gate(p, p->gate, 1, j, x, k->now, NULL, to_out);
        k->next[j] = (int16_t)gated(out, look_up(p->output, c * (1 << p->cell_shift)), 14 - p->output_shift);
    }
}

static void gru_step(const mica_recurrent_s8_t *p, const work_t *k, const int8_t *x) {
    bool before = p->cell == MICA_CELL_GRU;
    for (uint32_t j = 0; before && j < p->units; ++j) {
        k->inner[j] = (int16_t)gated(gate(p, p->gate, 1, j, x, k->now, NULL, 0), k->now[j], 14);
    }
    for (uint32_t j = 0; j < p->units; ++j) {
        int32_t reset = before ? 0 : gate(p, p->gate, 1, j, x, k->now, NULL, 0);
        int32_t update = gate(p, p->gate, 0, j, x, k->now, NULL, 0);
        int32_t candidate = gate(p, p->candidate, 2, j, x, before ? k->inner : k->now, before ? NULL : &reset, 0);
        int32_t h = candidate + ((update * (k->now[j] - candidate) + (1 << 13)) >> 14);
        k->next[j] = (int16_t)clamp_state(h);
    }
}

static void rnn_step(const mica_recurrent_s8_t *p, const work_t *k, const int8_t *x) {
    for (uint32_t j = 0; j < p->units; ++j) {
        k->next[j] = (int16_t)gate(p, p->candidate, 0, j, x, k->now, NULL, 0);
    }
}

static void start(const mica_recurrent_s8_t *p, const work_t *k, uint32_t b) {
    for (uint32_t j = 0; j < p->units; ++j) {
        uint32_t at = b * p->units + j;
        k->now[j] = p->initial >= 1 ? (int16_t)((p->h0[at] - p->h_zero) * 128) : 0;
        int32_t c = p->initial == 2 ? p->c0[at] - p->c0_zero : 0;
        k->inner[j] = (int16_t)requant(c, p->in_mult, p->in_shift, -STATE_MAX, STATE_MAX);
    }
}

static void start_carried(const mica_recurrent_s8_t *p, const work_t *k, uint32_t b) {
    size_t n = 2u * p->units, at = b * n;
    memset(k->now, 0, n);
    memset(k->inner, 0, n);
    if (p->initial >= 1) {
        memcpy(k->now, p->h0 + at, n);
    }
    if (p->initial == 2) {
        memcpy(k->inner, p->c0 + at, n);
    }
    for (uint32_t j = 0; j < p->units; ++j) {  // -32768 comes from outside only
        k->now[j] = (int16_t)clamp_state(k->now[j]);
        k->inner[j] = (int16_t)clamp_state(k->inner[j]);
    }
}

static void keep(const mica_recurrent_s8_t *p, const work_t *k, uint32_t b) {
    size_t n = 2u * p->units;
    memcpy(p->y + b * n, k->now, n);
    if (p->cell == MICA_CELL_LSTM) {
        memcpy(p->y + (p->batch + b) * n, k->inner, n);
    }
}

static void finish(const mica_recurrent_s8_t *p, int8_t *y, const int16_t *h) {
    for (uint32_t j = 0; j < p->units; ++j) {
        y[j] = (int8_t)(p->carried ? mica_requant_s8(h[j], p->out_mult, p->out_shift, p->y_zero, -128, 127)
                                   : mica_clamp(p->h_zero + ((h[j] + 64) >> 7), -128, 127));
    }
}

void mica_recurrent_s8_ref(const mica_recurrent_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    if (row_begin >= row_end) {
        return;
    }
    uint32_t units = p->units;
    int16_t *words = scratch;
    work_t k = { .now = words, .next = words + units, .inner = words + 2 * units };
    int8_t *of_rows = p->y + (size_t)mica_recurrent_s8_ahead(p) * p->batch * units;
    for (uint32_t b = 0; b < p->batch; ++b) {
        if (p->carried) {
            start_carried(p, &k, b);
        } else {
            start(p, &k, b);
        }
        for (uint32_t i = 0; i < p->time; ++i) {
            size_t row = (size_t)(p->reverse ? p->time - 1 - i : i) * p->batch + b;
            const int8_t *x = p->x + row * p->in_n;
            switch (p->cell) {
                case MICA_CELL_LSTM:
                    lstm_step(p, &k, x);
                    break;
                case MICA_CELL_RNN:
                    rnn_step(p, &k, x);
                    break;
                default:
                    gru_step(p, &k, x);
            }
            if (p->every) {
                finish(p, of_rows + row * units, k.next);
            }
            int16_t *swap = k.now;
            k.now = k.next;
            k.next = swap;
        }
        int8_t *y = of_rows + (size_t)b * units;
        for (uint32_t j = 0; j < units && p->cell_result; ++j) {
            y[j] = (int8_t)mica_requant_s8(k.inner[j], p->out_mult, p->out_shift, p->y_zero, -128, 127);
        }
        if (!p->every && !p->cell_result) {
            finish(p, y, k.now);
        }
        if (p->carried) {
            keep(p, &k, b);
        }
    }
}

#endif

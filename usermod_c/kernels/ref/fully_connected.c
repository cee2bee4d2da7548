// Matrix product with constant weights; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "requant.h"
#include "shape.h"

mica_status_t mica_fully_connected_s8_check(const mica_fully_connected_s8_t *p, const char **what) {
    if (!p->rows || !p->in_k || !p->out_n) {
        *what = "a dimension is 0";
        return MICA_ERR_SHAPE;
    }
    if ((uint64_t)p->rows * p->in_k > MICA_MAX_BYTES || (uint64_t)p->rows * p->out_n > MICA_MAX_BYTES
        || mica_product(p->in_k, p->out_n, 1, 1) > MICA_MAX_BYTES) {
        *what = "the matrices are too large";
        return MICA_ERR_SHAPE;
    }
    return mica_act_check(p->ch.act_min, p->ch.act_max, what);
}

size_t mica_fully_connected_s8_weights_bytes(const mica_fully_connected_s8_t *p) {
    return mica_weights_bytes(p->ch.layout, p->out_n, p->in_k);
}

uint32_t mica_fully_connected_s8_channels(const mica_fully_connected_s8_t *p) {
    return p->out_n;
}

mica_status_t mica_fully_connected_s8_check_constants(const mica_fully_connected_s8_t *p, const char **what) {
    return mica_channels_check(&p->ch, p->out_n, p->in_k, what);
}

uint32_t mica_fully_connected_s8_rows(const mica_fully_connected_s8_t *p) {
    return p->rows;
}

// acc + sum of x[i] * w[i] modulo 2^32: what it is with 128 taken from each w fits an int32, on the way it may not.
static uint32_t dot_offset(uint32_t acc, const int8_t *x, const uint8_t *w, int32_t n) {
    for (const uint8_t *end = w + n; w != end; ++w, ++x) {
        acc += (uint32_t)(*x * *w);
    }
    return acc;
}

// acc + sum of x[i] * the weight of code i.
static int32_t dot_codes(int32_t acc, const int8_t *x, const int8_t *table, const int8_t *row, uint32_t k) {
    for (uint32_t i = 0; i < k; ++i) {
        acc += x[i] * mica_coded(table, row, i);
    }
    return acc;
}

void mica_fully_connected_s8_ref(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_channels_t *ch = &p->ch;
    int32_t k = p->in_k;
    uint32_t row_bytes = mica_row_bytes(ch->layout, p->in_k);
    const int8_t *x = p->x + (size_t)row_begin * p->in_k;
    int8_t *y = p->y + (size_t)row_begin * p->out_n;

    for (uint32_t row = row_begin; row < row_end; ++row, x += k) {
        const int8_t *w = ch->weights;
        // Offset weights are 128 too large: one sum of x, for all channels, takes it off.
        uint32_t excess = ch->layout == MICA_LAYOUT_OFFSET_ROWS ? 128 * (uint32_t)mica_sum(x, k) : 0;
        for (int32_t o = 0; o < p->out_n; ++o, w += row_bytes) {
            int32_t acc = ch->bias[o];
            if (ch->layout == MICA_LAYOUT_OFFSET_ROWS) {
                acc = (int32_t)(dot_offset((uint32_t)acc, x, (const uint8_t *)w, k) - excess);
            } else if (MICA_CODED(ch->layout)) {
                acc = dot_codes(acc, x, ch->table, w, p->in_k);
            } else {
                acc = mica_dot(acc, x, w, k);
            }
            *y++ = mica_requant_s8(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
        }
    }
}

#endif

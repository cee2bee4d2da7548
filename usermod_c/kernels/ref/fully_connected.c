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

size_t mica_fully_connected_s8_x_bytes(const mica_fully_connected_s8_t *p) {
    return (size_t)p->rows * p->in_k;
}

size_t mica_fully_connected_s8_y_bytes(const mica_fully_connected_s8_t *p) {
    return (size_t)p->rows * p->out_n;
}

size_t mica_fully_connected_s8_weights_bytes(const mica_fully_connected_s8_t *p) {
    return (size_t)p->in_k * p->out_n;
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

void mica_fully_connected_s8_ref(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_channels_t *ch = &p->ch;
    int32_t k = p->in_k;
    const int8_t *x = p->x + (size_t)row_begin * p->in_k;
    int8_t *y = p->y + (size_t)row_begin * p->out_n;

    for (uint32_t row = row_begin; row < row_end; ++row, x += k) {
        const int8_t *w = ch->weights;
        for (int32_t o = 0; o < p->out_n; ++o, w += k) {
            int32_t acc = mica_dot(ch->bias[o], x, w, k);
            *y++ = mica_requant_s8(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
        }
    }
}

#endif

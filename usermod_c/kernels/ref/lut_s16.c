// Any function of one variable, from a table and the lines between its entries; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_LUT_S16

mica_status_t mica_lut_s16_check(const mica_lut_s16_t *p, const char **what) {
    if (p->n == 0 || p->n > MICA_MAX_BYTES || p->bits < 1 || p->bits > MICA_LUT_S16_MOST_BITS) {
        *what = "the tensor is empty or too large, or bits are not 1 to 12";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

uint32_t mica_lut_s16_rows(const mica_lut_s16_t *p) {
    return p->n;
}

void mica_lut_s16_ref(const mica_lut_s16_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const uint32_t down = 16u - p->bits;
    for (uint32_t i = row_begin; i < row_end; ++i) {
        const uint32_t u = (uint32_t)(p->x[i] + 32768), part = u & ((1u << down) - 1);
        const int16_t *t = p->table + (u >> down);
        p->y[i] = (int16_t)(t[0] + (((t[1] - t[0]) * (int32_t)part + (1 << (down - 1))) >> down));
    }
}

#endif

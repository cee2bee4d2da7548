// Any function of one variable, from a table; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_LUT_S8

mica_status_t mica_lut_s8_check(const mica_lut_s8_t *p, const char **what) {
    if (p->n == 0 || p->n > MICA_MAX_BYTES) {
        *what = "the tensor is empty or too large";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

uint32_t mica_lut_s8_rows(const mica_lut_s8_t *p) {
    return p->n;
}

void mica_lut_s8_ref(const mica_lut_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const int8_t *table = p->table + 128;
    for (uint32_t i = row_begin; i < row_end; ++i) {
        p->y[i] = table[p->x[i]];
    }
}

#endif

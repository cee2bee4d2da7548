// Hardmax over the last axis; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_HARDMAX_S8

mica_status_t mica_hardmax_s8_check(const mica_hardmax_s8_t *p, const char **what) {
    if (!p->rows || !p->axis || (uint64_t)p->rows * p->axis > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

uint32_t mica_hardmax_s8_rows(const mica_hardmax_s8_t *p) {
    return p->rows;
}

void mica_hardmax_s8_ref(const mica_hardmax_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    uint32_t axis = p->axis;
    const int8_t *x = p->x + (size_t)row_begin * axis;
    int8_t *y = p->y + (size_t)row_begin * axis;
    for (uint32_t row = row_begin; row < row_end; ++row, x += axis, y += axis) {
        uint32_t most = 0;
        for (uint32_t i = 1; i < axis; ++i) {
            most = x[i] > x[most] ? i : most;
        }
        for (uint32_t i = 0; i < axis; ++i) {
            y[i] = i == most ? p->one : p->y_zero;
        }
    }
}

#endif

// int16 to int8 on another scale; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_NARROW_S8

#include "shape.h"
#include "wide.h"

mica_status_t mica_narrow_s8_check(const mica_narrow_s8_t *p, const char **what) {
    if (p->n == 0 || p->n > MICA_MAX_BYTES) {
        *what = "the tensor is empty or too large";
        return MICA_ERR_SHAPE;
    }
    return mica_requant_check(&p->mult, &p->shift, 1, what);
}

uint32_t mica_narrow_s8_rows(const mica_narrow_s8_t *p) {
    return p->n;
}

void mica_narrow_s8_ref(const mica_narrow_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const int32_t zero = p->y_zero;
    for (uint32_t i = row_begin; i < row_end; ++i) {
        p->y[i] = (int8_t)(zero + mica_requant_s16(p->x[i], p->mult, p->shift, p->act_min - zero, p->act_max - zero));
    }
}

#endif

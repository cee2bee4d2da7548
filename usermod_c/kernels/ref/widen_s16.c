// int8 to int16 on another scale; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_WIDEN_S16

#include "shape.h"
#include "wide.h"

mica_status_t mica_widen_s16_check(const mica_widen_s16_t *p, const char **what) {
    if (p->n == 0 || p->n > MICA_MAX_BYTES) {
        *what = "the tensor is empty or too large";
        return MICA_ERR_SHAPE;
    }
    return mica_requant_check(&p->mult, &p->shift, 1, what);
}

uint32_t mica_widen_s16_rows(const mica_widen_s16_t *p) {
    return p->n;
}

void mica_widen_s16_ref(const mica_widen_s16_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    for (uint32_t i = row_begin; i < row_end; ++i) {
        p->y[i] = (int16_t)mica_requant_s16(p->x[i] - p->x_zero, p->mult, p->shift, p->act_min, p->act_max);
    }
}

#endif

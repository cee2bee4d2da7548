// Product of two tensors with numpy broadcasting; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_MUL_S8

#include "broadcast.h"
#include "requant.h"
#include "shape.h"

mica_status_t mica_mul_s8_check(const mica_mul_s8_t *p, const char **what) {
    mica_status_t status = mica_broadcast_check(&p->shape, what);
    if (status == MICA_OK) {
        status = mica_requant_check(&p->mult, &p->shift, 1, what);
    }
    return status != MICA_OK ? status : mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_mul_s8_rows(const mica_mul_s8_t *p) {
    return mica_broadcast_y_size(&p->shape);
}

void mica_mul_s8_ref(const mica_mul_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    int32_t a_zero = p->a_zero, b_zero = p->b_zero, y_zero = p->y_zero, low = p->act_min, high = p->act_max;
    int32_t mult = p->mult, shift = p->shift;

    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
            *y++ = mica_requant_s8((*a - a_zero) * (*b - b_zero), mult, shift, y_zero, low, high);
        }
        at += n;
    }
}

#endif

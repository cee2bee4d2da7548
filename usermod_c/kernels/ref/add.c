// Sum or difference of two tensors with numpy broadcasting; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_ADD_S8

#include "broadcast.h"
#include "requant.h"
#include "shape.h"

mica_status_t mica_add_s8_check(const mica_add_s8_t *p, const char **what) {
    mica_status_t status = mica_broadcast_check(&p->shape, what);
    if (status != MICA_OK) {
        return status;
    }
    int64_t a = p->mult_a, b = p->mult_b, offset = p->offset;
    if (128 * ((a < 0 ? -a : a) + (b < 0 ? -b : b)) + (offset < 0 ? -offset : offset) > INT32_MAX || p->shift > 30) {
        *what = "the sum can overflow, or shift is above 30";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_add_s8_rows(const mica_add_s8_t *p) {
    return mica_broadcast_y_size(&p->shape);
}

void mica_add_s8_ref(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    int32_t mult_a = p->mult_a, mult_b = p->mult_b, offset = p->offset, zero = p->y_zero;
    int32_t low = p->act_min - zero, high = p->act_max - zero;  // before zero is added: the sum may fill an int32

    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
            int32_t sum = (*a * mult_a + *b * mult_b + offset) >> p->shift;
            *y++ = (int8_t)(zero + mica_clamp(sum, low, high));
        }
        at += n;
    }
}

#endif

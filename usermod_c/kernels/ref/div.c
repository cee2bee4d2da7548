// Quotient of two tensors with numpy broadcasting; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_DIV_S8

#include "broadcast.h"
#include "requant.h"
#include "shape.h"

mica_status_t mica_div_s8_check(const mica_div_s8_t *p, const char **what) {
    mica_status_t status = mica_broadcast_check(&p->shape, what);
    if (status != MICA_OK) {
        return status;
    }
    if (p->factor > 1u << 21 || p->shift > 22) {
        *what = "factor is above 2^21, or shift above 22";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_div_s8_rows(const mica_div_s8_t *p) {
    return mica_broadcast_y_size(&p->shape);
}

void mica_div_s8_ref(const mica_div_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    int32_t a_zero = p->a_zero, b_zero = p->b_zero, zero = p->y_zero, low = p->act_min - zero, high = p->act_max - zero;
    uint32_t factor = p->factor, shift = p->shift;

    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
            int32_t u = *a - a_zero, v = *b - b_zero, q;
            if (v != 0) {
                // Half steps: numerator and divisor are below 2^30, so their sum is below 2^31.
                uint32_t divisor = (uint32_t)(v < 0 ? -v : v) << shift;
                uint32_t whole = (2 * factor * (uint32_t)(u < 0 ? -u : u) + divisor) / (2 * divisor);
                q = (u < 0) == (v < 0) ? (int32_t)whole : -(int32_t)whole;
            } else {
                q = u > 0 ? 1 << 30 : u < 0 ? -(1 << 30) : 0;
            }
            *y++ = (int8_t)(zero + mica_clamp(q, low, high));
        }
        at += n;
    }
}

#endif

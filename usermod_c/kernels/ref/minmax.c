// The smaller or larger of two tensors with numpy broadcasting; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_MINMAX_S8

#include "broadcast.h"
#include "requant.h"
#include "shape.h"

// Whether 128 * |mult| + |offset| fits an int32.
static bool fits(int64_t mult, int64_t offset) {
    return 128 * (mult < 0 ? -mult : mult) + (offset < 0 ? -offset : offset) <= INT32_MAX;
}

mica_status_t mica_minmax_s8_check(const mica_minmax_s8_t *p, const char **what) {
    mica_status_t status = mica_broadcast_check(&p->shape, what);
    if (status != MICA_OK) {
        return status;
    }
    if (!fits(p->mult_a, p->offset_a) || !fits(p->mult_b, p->offset_b) || p->shift > 30) {
        *what = "a product can overflow, or shift is above 30";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_minmax_s8_rows(const mica_minmax_s8_t *p) {
    return mica_broadcast_y_size(&p->shape);
}

void mica_minmax_s8_ref(const mica_minmax_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    int32_t mult_a = p->mult_a, mult_b = p->mult_b, offset_a = p->offset_a, offset_b = p->offset_b;
    int32_t zero = p->y_zero, low = p->act_min - zero, high = p->act_max - zero;
    bool larger = p->larger;

    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
            int32_t u = *a * mult_a + offset_a, v = *b * mult_b + offset_b;
            // Shifting keeps the order, so one shift behind the choice is as good as two before it.
            *y++ = (int8_t)(zero + mica_clamp(((u > v) == larger ? u : v) >> p->shift, low, high));
        }
        at += n;
    }
}

#endif

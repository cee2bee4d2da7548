// Sum, difference or product of two int16 tensors with numpy broadcasting; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_BINARY_S16

#include "broadcast.h"

mica_status_t mica_binary_s16_check(const mica_binary_s16_t *p, const char **what) {
    return mica_broadcast_check(&p->shape, what);
}

uint32_t mica_binary_s16_rows(const mica_binary_s16_t *p) {
    return mica_broadcast_y_size(&p->shape);
}

void mica_binary_s16_ref(const mica_binary_s16_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    const int64_t half = (int64_t)1 << (p->shift - 1);
    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int16_t *a = p->a + a_at, *b = p->b + b_at;
        int16_t *y = p->y + at;
        for (int16_t *end = y + n; y != end; a += a_step, b += b_step) {
            const int64_t both = (int64_t)(*a * *b) * p->mult_ab;
            const int64_t v = ((int64_t)*a * p->mult_a + (int64_t)*b * p->mult_b + both + half) >> p->shift;
            *y++ = v < p->act_min ? p->act_min : v > p->act_max ? p->act_max : (int16_t)v;
        }
        at += n;
    }
}

#endif

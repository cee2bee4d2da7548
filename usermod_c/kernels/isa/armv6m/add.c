// Sum or difference of two tensors on a Cortex-M0+: sum.S does runs along the innermost dimension that neither repeats.
#include "kernels.h"
#ifndef MICA_WITHOUT_ADD_S8

#include "broadcast.h"

void mica_add_s8_armv6m(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    // Without a shift the sum can fill an int32, and zero would take it beyond.
    if (p->shift == 0 || !mica_broadcast_a_step(&p->shape) || !mica_broadcast_b_step(&p->shape)) {
        mica_add_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    mica_sum_t args = {
        .mult_a = p->mult_a,
        .mult_b = p->mult_b,
        .offset = p->offset,
        .shift = p->shift,
        .zero = p->y_zero - p->act_min,
        .range = (uint32_t)(p->act_max - p->act_min),
        .low = p->act_min,
    };
    for (uint32_t at = row_begin; at < row_end; at += args.n) {
        uint32_t a_at, b_at;
        args.n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        args.a = p->a + a_at;
        args.b = p->b + b_at;
        args.y = p->y + at;
        mica_armv6m_add(&args);
    }
}

#endif

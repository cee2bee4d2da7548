// Sum or difference of two tensors with MVE, four elements at a time.
#include "kernels.h"
#ifndef MICA_WITHOUT_ADD_S8

#include "broadcast.h"

void mica_add_s8_armv81m(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    if (mica_broadcast_a_step(&p->shape) != 1 || mica_broadcast_b_step(&p->shape) != 1) {
        mica_add_s8_armv7em(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const int32x4_t low = vdupq_n_s32(p->act_min), high = vdupq_n_s32(p->act_max), mult_a = vdupq_n_s32(p->mult_a);
    const int32_t mult_b = p->mult_b, offset = p->offset, zero = p->y_zero, shift = -(int32_t)p->shift;
    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        // The loop takes what is left over in its last round: LETP. VQADD: the sum may fill an int32 already.
        __asm__ volatile (
            "wlstp.32 lr, %3, 2f\n"
            "1:\tvldrb.s32 q0, [%0], #4\n\tvldrb.s32 q1, [%1], #4\n\tvmlas.s32 q0, %q4, %7\n\tvmla.s32 q0, q1, %8\n\t"
            "vshl.s32 q0, %9\n\tvqadd.s32 q0, q0, %10\n\tvmax.s32 q0, q0, %q5\n\tvmin.s32 q0, q0, %q6\n\t"
            "vstrb.32 q0, [%2], #4\n\tletp lr, 1b\n2:"
            : "+l" (a), "+l" (b), "+l" (y)
            : "r" (n), "w" (mult_a), "w" (low), "w" (high), "r" (offset), "r" (mult_b), "r" (shift), "r" (zero)
            : "lr", "q0", "q1", "memory");
        at += n;
    }
}

#endif

// Sum or difference of two tensors on a Cortex-M with DSP instructions.
#include "kernels.h"
#ifndef MICA_WITHOUT_ADD_S8

#include "broadcast.h"

// \v >> shift, with zero added and saturated to int8: QADD, because the sum may fill an int32.
static inline int32_t finish(int32_t v, int32_t shift, int32_t zero) {
    v >>= shift;
    __asm__ ("qadd %0, %0, %1\n\tssat %0, #8, %0" : "+r" (v) : "r" (zero));
    return v;
}

void mica_add_s8_armv7em(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    int32_t mult_a = p->mult_a, mult_b = p->mult_b, offset = p->offset, zero = p->y_zero, shift = p->shift;

    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at, *end = y + n;
        if (a_step == 1 && b_step == 1) {
            for (int8_t *last = y + (n & ~3u); y != last; y += 4, a += 4, b += 4) {
                int32_t a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3], b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
                y[0] = (int8_t)finish(a0 * mult_a + (b0 * mult_b + offset), shift, zero);
                y[1] = (int8_t)finish(a1 * mult_a + (b1 * mult_b + offset), shift, zero);
                y[2] = (int8_t)finish(a2 * mult_a + (b2 * mult_b + offset), shift, zero);
                y[3] = (int8_t)finish(a3 * mult_a + (b3 * mult_b + offset), shift, zero);
            }
        }
        for (; y != end; a += a_step, b += b_step) {
            *y++ = (int8_t)finish(*a * mult_a + (*b * mult_b + offset), shift, zero);
        }
        at += n;
    }
    if (p->act_min != -128 || p->act_max != 127) {
        for (int8_t *y = p->y + row_begin, *end = p->y + row_end; y != end; ++y) {
            *y = *y < p->act_min ? p->act_min : *y > p->act_max ? p->act_max : *y;
        }
    }
}

#endif

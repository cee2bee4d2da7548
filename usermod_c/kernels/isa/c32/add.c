// Sum or difference of two tensors: zero and the lower end of the range are folded into the offset, so that one
// comparison finds what is out of range at either end.
#include "kernels.h"
#ifndef MICA_WITHOUT_ADD_S8

#include "broadcast.h"
#include "sum.h"

// n elements. By itself, so that all of it has registers.
static __attribute__((noinline)) void sums(const mica_sum_t *args, const int8_t *a, const int8_t *b, int8_t *y,
    uint32_t n) {
    const mica_sum_t s = *args;
    int8_t *end = y + n;
    if (n & 1) {
        *y++ = mica_plus(&s, *a++, *b++);
    }
    for (; y != end; y += 2) {
        int32_t a0 = *a++, b0 = *b++, a1 = *a++, b1 = *b++;
        y[0] = mica_plus(&s, a0, b0);
        y[1] = mica_plus(&s, a1, b1);
    }
}

void mica_add_s8_c32(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    mica_sum_t s;
    if (!mica_fold_sum(p, &s)) {
        mica_add_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        if (a_step && b_step) {
            sums(&s, a, b, y, n);
        } else {
            for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
                *y++ = mica_plus(&s, *a, *b);
            }
        }
        at += n;
    }
}

#endif

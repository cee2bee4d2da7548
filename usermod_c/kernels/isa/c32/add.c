// Sum or difference of two tensors: zero and the lower end of the range are folded into the offset, so that one comparison finds
// what is out of range at either end.
#include "kernels.h"
#ifndef MICA_WITHOUT_ADD_S8

#include "broadcast.h"

static int64_t magnitude(int64_t v) {
    return v < 0 ? -v : v;
}

typedef struct {
    int32_t mult_a, mult_b, offset, shift, low;
    uint32_t range;
} sum_t;

static inline int8_t sum(const sum_t *s, int32_t a, int32_t b) {
    int32_t v = (a * s->mult_a + (b * s->mult_b + s->offset)) >> s->shift;
    if (MICA_RARELY((uint32_t)v > s->range)) {
        v = v < 0 ? 0 : (int32_t)s->range;
    }
    v += s->low;
    return (int8_t)v;
}

// n elements. By itself, so that all of it has registers.
static __attribute__((noinline)) void sums(const sum_t *args, const int8_t *a, const int8_t *b, int8_t *y, uint32_t n) {
    const sum_t s = *args;
    int8_t *end = y + n;
    if (n & 1) {
        *y++ = sum(&s, *a++, *b++);
    }
    for (; y != end; y += 2) {
        int32_t a0 = *a++, b0 = *b++, a1 = *a++, b1 = *b++;
        y[0] = sum(&s, a0, b0);
        y[1] = sum(&s, a1, b1);
    }
}

void mica_add_s8_c32(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    int32_t zero = p->y_zero - p->act_min;
    bool fits = magnitude(zero) <= INT32_MAX >> p->shift;
    int64_t folded = fits ? (int64_t)p->offset + zero * (1 << p->shift) : 0;  // a 64-bit shift could be a call into a library
    if (!fits || 128 * (magnitude(p->mult_a) + magnitude(p->mult_b)) + magnitude(folded) > INT32_MAX) {
        mica_add_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const sum_t s = {
        .mult_a = p->mult_a, .mult_b = p->mult_b, .offset = (int32_t)folded, .shift = p->shift,
        .low = p->act_min, .range = (uint32_t)(p->act_max - p->act_min),
    };
    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        if (a_step && b_step) {
            sums(&s, a, b, y, n);
        } else {
            for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
                *y++ = sum(&s, *a, *b);
            }
        }
        at += n;
    }
}

#endif

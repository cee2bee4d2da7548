// Product of two tensors. It is below 2^16, so that its requantisation needs no more than the upper word of a product,
// and where there is no such instruction three products of 32 bits.
#include "kernels.h"
#ifndef MICA_WITHOUT_MUL_S8

#include "broadcast.h"

#ifdef __ARM_ARCH_6M__
// floor(v * mult / 2^20), |v| < 2^16: mult in three parts, floors inside floors.
typedef struct {
    int32_t upper, middle, lower;
} factor_t;

#define DROPPED 20

static inline factor_t factor(int32_t mult) {
    factor_t f = { mult >> 20, mult >> 10 & 1023, mult & 1023 };
    return f;
}

static inline int32_t times(int32_t v, factor_t f) {
    return ((((v * f.lower) >> 10) + v * f.middle) >> 10) + v * f.upper;
}
#else
typedef int32_t factor_t;

#define DROPPED 31

static inline factor_t factor(int32_t mult) {
    return mult;
}

static inline int32_t times(int32_t v, factor_t f) {
    return (int32_t)((int64_t)(2 * v) * f >> 32);
}
#endif

typedef struct {
    factor_t factor;
    int32_t a_zero, b_zero, round, shift, low;
    uint32_t range;
} product_t;

static inline int8_t product(const product_t *s, int32_t a, int32_t b) {
    int32_t v = (times((a - s->a_zero) * (b - s->b_zero), s->factor) + s->round) >> s->shift;
    if (MICA_RARELY((uint32_t)v > s->range)) {
        v = v < 0 ? 0 : (int32_t)s->range;
    }
    return (int8_t)(v + s->low);
}

// n elements. By itself, so that all of it has registers.
static __attribute__((noinline)) void products(const product_t *args, const int8_t *a, const int8_t *b, int8_t *y,
    uint32_t n) {
    const product_t s = *args;
    for (int8_t *end = y + n; y != end;) {
        *y++ = product(&s, *a++, *b++);
    }
}

void mica_mul_s8_c32(const mica_mul_s8_t *p, MICA_KERNEL_ARGS) {
    // What is shifted last stays below 2^27 + 2^30, as 255 << 22 is below 2^30.
    int32_t shift = p->shift + 31 - DROPPED;
    if (p->shift < 1 || shift > 22) {
        mica_mul_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t a_step = mica_broadcast_a_step(&p->shape), b_step = mica_broadcast_b_step(&p->shape);
    const product_t s = {
        .factor = factor(p->mult), .a_zero = p->a_zero, .b_zero = p->b_zero, .shift = shift, .low = p->act_min,
        .round = (1 << (shift - 1)) + (p->y_zero - p->act_min) * (1 << shift),
        .range = (uint32_t)(p->act_max - p->act_min),
    };
    for (uint32_t at = row_begin; at < row_end;) {
        uint32_t a_at, b_at, n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const int8_t *a = p->a + a_at, *b = p->b + b_at;
        int8_t *y = p->y + at;
        if (a_step && b_step) {
            products(&s, a, b, y, n);
        } else {
            for (int8_t *end = y + n; y != end; a += a_step, b += b_step) {
                *y++ = product(&s, *a, *b);
            }
        }
        at += n;
    }
}

#endif

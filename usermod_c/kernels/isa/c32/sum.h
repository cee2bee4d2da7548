// The sum of two numbers in 32 bits: zero and the lower end of the range are folded into the offset.
#ifndef MICA_C32_SUM_H
#define MICA_C32_SUM_H

#include "kernels.h"

typedef struct {
    int32_t mult_a, mult_b, offset, shift, low;
    uint32_t range;
} mica_sum_t;

static inline int64_t mica_magnitude(int64_t v) {
    return v < 0 ? -v : v;
}

// False where 32 bits are too few.
static inline bool mica_fold_sum(const mica_add_s8_t *p, mica_sum_t *s) {
    const int32_t zero = p->y_zero - p->act_min;
    const bool fits = mica_magnitude(zero) <= INT32_MAX >> p->shift;
    const int64_t folded = fits ? (int64_t)p->offset + zero * (1 << p->shift) : 0;  // 64-bit shifts may be calls
    *s = (mica_sum_t) {
        .mult_a = p->mult_a, .mult_b = p->mult_b, .offset = (int32_t)folded, .shift = p->shift,
        .low = p->act_min, .range = (uint32_t)(p->act_max - p->act_min),
    };
    return fits && 128 * (mica_magnitude(p->mult_a) + mica_magnitude(p->mult_b)) + mica_magnitude(folded) <= INT32_MAX;
}

static inline int8_t mica_plus(const mica_sum_t *s, int32_t a, int32_t b) {
    int32_t v = (a * s->mult_a + (b * s->mult_b + s->offset)) >> s->shift;
    if (MICA_RARELY((uint32_t)v > s->range)) {
        v = v < 0 ? 0 : (int32_t)s->range;
    }
    return (int8_t)(v + s->low);
}

#endif

// mica: what attention has for each row of queries, whichever core does the rest.
#ifndef MICA_C32_ATTEND_H
#define MICA_C32_ATTEND_H

#include "../../requant.h"
#include "kernels.h"

// The weight of a score `apart` below the largest.
static inline uint32_t mica_attend_weight(const mica_attend_s8_t *p, uint32_t apart) {
    const uint32_t u = apart * p->fall >> p->fall_shift;
    const uint32_t a = p->table[u >> 8], b = p->table[(u >> 8) + 1];
    return a - ((a - b) * (u & 255) >> 8);
}

// The weight of all that are further below it than the table reaches.
static inline uint32_t mica_attend_least(const mica_attend_s8_t *p) {
    return mica_attend_weight(p, p->limit);
}

#ifdef __ARM_ARCH_6M__
// 2^62 / n rounded down; n has its highest bit and another. One bit a turn: a division is a call that costs more.
static inline uint32_t mica_attend_quotient(uint32_t n) {
    uint32_t left = (uint32_t)1 << 31, quotient = 0;
    n = -n;  // what it is divided by: a sum with it that carries says that there is as much left
    for (uint32_t i = 0; i < 31; ++i) {
        const uint32_t twice = left << 1, less = twice + n;
        const bool fits = left >> 31 || less < n;
        left = fits ? less : twice;
        quotient = quotient << 1 | fits;
    }
    return quotient;
}
#else
// The same in two digits of 16 bits, each guessed from the upper half of n, at most two too large.
static inline uint32_t mica_attend_digit(uint32_t left, uint32_t n) {
    const uint32_t high = n >> 16, low = n & 0xffff;
    uint32_t digit = left / high, rest = left % high;
    while (rest >> 16 == 0 && (digit >> 16 || digit * low > rest << 16)) {
        --digit;
        rest += high;
    }
    return digit;
}

static inline uint32_t mica_attend_quotient(uint32_t n) {
    const uint32_t left = (uint32_t)1 << 30, high = mica_attend_digit(left, n);
    return high << 16 | mica_attend_digit((left << 16) - high * n, n);
}
#endif

// 2^62 / n rounded down, at most 2^31 - 1; n has its highest bit.
static inline uint32_t mica_attend_inverse(uint32_t n) {
    return n << 1 ? mica_attend_quotient(n) : INT32_MAX;
}

// How sums of values become results.
typedef struct {
    int32_t begin, mult, shift;  // begin: of a sum, so that the zero point of the values is gone in the end
    bool fast;
} mica_attend_scale_t;

// total: of all weights.
static __attribute__((noinline, unused)) mica_attend_scale_t mica_attend_scale(const mica_attend_s8_t *p,
    uint32_t total) {
    if (MICA_RARELY(total - 256 > (uint32_t)INT32_MAX / 255 - 256)) {
        total = 256;  // only of a file that changed since it was loaded
    }
    int32_t z = 0;
    for (uint32_t t = total; !(t >> 31); t <<= 1) {
        ++z;
    }
    mica_attend_scale_t scale = {
        .begin = -(int32_t)((uint32_t)p->v_zero * total),
        .mult = (int32_t)((uint64_t)mica_attend_inverse(total << z) * (uint32_t)p->mult >> 31),
        .shift = 31 - z + p->shift,
        .fast = total <= (1u << 29) / 255,
    };
    return scale;
}

// n sums as results.
static __attribute__((noinline, unused)) void mica_attend_results(const mica_attend_s8_t *p,
    const mica_attend_scale_t *scale, const int32_t *sums, int8_t *y, uint32_t n) {
    const int32_t mult = scale->mult, shift = scale->shift, zero = p->y_zero, low = p->act_min, high = p->act_max;
    if (scale->fast) {
        for (const int32_t *end = sums + n; sums != end;) {
            *y++ = mica_requant_fast(*sums++, mult, shift, zero, low, high);
        }
    } else {
        for (const int32_t *end = sums + n; sums != end;) {
            *y++ = mica_requant_s8(*sums++, mult, shift, zero, low, high);
        }
    }
}

// Weights in the place of n scores; returns their sum.
static __attribute__((noinline, unused)) uint32_t mica_attend_weights(const mica_attend_s8_t *p, int32_t *s, uint32_t n,
    int32_t most) {
    const uint32_t limit = p->limit, fall = p->fall, fall_shift = (uint32_t)p->fall_shift, least = mica_attend_least(p);
    const uint16_t *table = p->table;
    uint32_t total = 0;
    for (const int32_t *end = s + n; s != end; ++s) {
        const uint32_t apart = (uint32_t)most - (uint32_t)*s;
        uint32_t w = least;
        if (apart < limit) {
            const uint32_t u = apart * fall >> fall_shift;
            const uint16_t *entry = table + (u >> 8);
            w = entry[0] - ((entry[0] - (uint32_t)entry[1]) * (u & 255) >> 8);
        }
        *s = (int32_t)w;
        total += w;
    }
    return total;
}

// A row of y: the means of n rows of values by their weights.
static __attribute__((noinline, unused)) void mica_attend_values(const mica_attend_s8_t *p,
    const mica_attend_scale_t *scale, const int32_t *w, uint32_t n, const int8_t *v, int8_t *y) {
    const uint32_t e = p->e;
    const int32_t *end = w + n;
    uint32_t left = e;
    for (; left >= 8; left -= 8, v += 8, y += 8) {
        int32_t a = scale->begin, b = a, c = a, d = a, f = a, g = a, h = a, i = a;
        const int8_t *from = v;
        for (const int32_t *one = w; one != end; from += e) {
            const int32_t by = *one++;
            a += by * from[0];
            b += by * from[1];
            c += by * from[2];
            d += by * from[3];
            f += by * from[4];
            g += by * from[5];
            h += by * from[6];
            i += by * from[7];
        }
        const int32_t sums[8] = { a, b, c, d, f, g, h, i };
        mica_attend_results(p, scale, sums, y, 8);
    }
    for (; left; --left, ++v, ++y) {
        int32_t sum = scale->begin;
        const int8_t *from = v;
        for (const int32_t *one = w; one != end; from += e) {
            sum += *one++ * *from;
        }
        mica_attend_results(p, scale, &sum, y, 1);
    }
}

#endif

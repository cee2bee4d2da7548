// Attention with few instructions a product: four keys share the query's loads, eight values a weight's.
#include "attend.h"
#ifndef MICA_WITHOUT_ATTEND_S8

// The query without its zero point.
static void put_query(int32_t *to, const int8_t *q, uint32_t d, int32_t zero) {
    for (const int8_t *end = q + d; q != end;) {
        *to++ = *q++ - zero;
    }
}

// Scores of n rows of keys into s; returns the largest.
static __attribute__((noinline)) int32_t scores(int32_t *s, const int8_t *k, const int32_t *x, uint32_t d, uint32_t n) {
    const int32_t *end = x + d;
    int32_t most = INT32_MIN;
    for (; n >= 4; n -= 4, k += 3 * d) {
        const int8_t *k1 = k + d, *k2 = k1 + d, *k3 = k2 + d;
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (const int32_t *from = x; from != end;) {
            const int32_t v = *from++;
            s0 += v * *k++;
            s1 += v * *k1++;
            s2 += v * *k2++;
            s3 += v * *k3++;
        }
        const int32_t one = s0 > s1 ? s0 : s1, two = s2 > s3 ? s2 : s3;
        most = one > most ? one : most;
        most = two > most ? two : most;
        *s++ = s0;
        *s++ = s1;
        *s++ = s2;
        *s++ = s3;
    }
    for (; n; --n) {
        int32_t sum = 0;
        for (const int32_t *from = x; from != end;) {
            sum += *from++ * *k++;
        }
        most = sum > most ? sum : most;
        *s++ = sum;
    }
    return most;
}

void mica_attend_s8_c32(const mica_attend_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int32_t *s = scratch, *x = s + p->t;
    const uint32_t n = mica_attend_s8_seen(p), d = p->d, e = p->e;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const uint32_t head = row / p->m;
        put_query(x, p->q + row * d, d, p->q_zero);
        const int32_t most = scores(s, p->k + head * p->t * d, x, d, n);
        const mica_attend_scale_t scale = mica_attend_scale(p, mica_attend_weights(p, s, n, most));
        mica_attend_values(p, &scale, s, n, p->v + head * p->t * e, p->y + row * e);
    }
}

#endif

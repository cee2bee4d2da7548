// Attention on a Cortex-M0+: attention.S does what costs something for each row of the cache. Widths that are no
// multiple of four, and tensors beside a word, go to the reference.
#include "../c32/attend.h"
#include "kernels.h"
#ifndef MICA_WITHOUT_ATTEND_S8

#define MOST 127  // what scores take of a number of a query, either way
#define AT_ONCE 8u

static inline uint32_t pair(int32_t low, int32_t high) {
    return (uint32_t)low + ((uint32_t)high << 16);
}

// The query without its zero point as crossed pairs; returns whether some of it is beyond MOST. Functions by
// themselves, so that each has registers.
static __attribute__((noinline)) bool put_query(uint32_t *to, const int8_t *q, uint32_t d, int32_t zero) {
    uint32_t beyond = 0;
    for (const int8_t *end = q + d; q != end; q += 4) {
        for (uint32_t i = 0; i < 2; ++i) {
            const int32_t high = q[i] - zero, low = q[i + 2] - zero;
            beyond |= (uint32_t)(high + MOST) > 2 * MOST || (uint32_t)(low + MOST) > 2 * MOST;
            *to++ = pair(low, high);
        }
    }
    return beyond;
}

static inline int32_t inside(int32_t v) {
    return v < -MOST ? -MOST : v > MOST ? MOST : v;
}

// The same in two: what is inside, and behind it the rest.
static __attribute__((noinline)) void split_query(uint32_t *to, const int8_t *q, uint32_t d, int32_t zero) {
    uint32_t *rest = to + d / 2;
    for (const int8_t *end = q + d; q != end; q += 4) {
        for (uint32_t i = 0; i < 2; ++i) {
            const int32_t high = q[i] - zero, low = q[i + 2] - zero;
            *to++ = pair(inside(low), inside(high));
            *rest++ = pair(low - inside(low), high - inside(high));
        }
    }
}

void mica_attend_s8_armv6m(const mica_attend_s8_t *p, MICA_KERNEL_ARGS) {
    const uint32_t d = p->d, e = p->e;
    if (((d | e | (uintptr_t)p->k | (uintptr_t)p->v) & 3) != 0) {
        mica_attend_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t *s = scratch;
    uint32_t *x = (uint32_t *)s + p->t;
    const uint32_t n = mica_attend_s8_seen(p);
    mica_attend_weights_t args = {
        .s = s, .end = s + n, .limit = p->limit, .fall = p->fall, .fall_shift = (uint32_t)p->fall_shift,
        .table = p->table, .least = mica_attend_least(p),
    };
    const uint32_t first = row_begin / p->m;
    const int8_t *k = p->k + first * p->t * d, *v = p->v + first * p->t * e, *q = p->q + row_begin * d;
    int8_t *y = p->y + row_begin * e;
    uint32_t of_head = row_begin - first * p->m;
    for (uint32_t row = row_begin; row < row_end; ++row, q += d) {
        args.most = INT32_MIN;
        if (put_query(x, q, d, p->q_zero)) {
            split_query(x, q, d, p->q_zero);
            mica_armv6m_scores(s, k, k + n * d, x, d / 4, &args.most);
            args.most = INT32_MIN;
            mica_armv6m_more_scores(s, k, k + n * d, x + d / 2, d / 4, &args.most);
        } else {
            mica_armv6m_scores(s, k, k + n * d, x, d / 4, &args.most);
        }
        const mica_attend_scale_t scale = mica_attend_scale(p, mica_armv6m_weights(&args));
        for (uint32_t from = 0; from < e;) {
            int32_t sums[AT_ONCE];
            const uint32_t many = e - from < AT_ONCE ? AT_ONCE / 2 : AT_ONCE;
            for (uint32_t i = 0; i < many; ++i) {
                sums[i] = scale.begin;
            }
            (many == AT_ONCE ? mica_armv6m_values_8 : mica_armv6m_values_4)(sums, s, s + n, v + from,
                (int32_t)(e - many));
            mica_attend_results(p, &scale, sums, y, many);
            from += many;
            y += many;
        }
        if (++of_head == p->m) {
            of_head = 0;
            k += p->t * d;
            v += p->t * e;
        }
    }
}

#endif

// Attention over the rows of a cache that are filled; contract in mica_kernels.h, formula in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_ATTEND_S8

#include "requant.h"
#include "shape.h"

#define MOST_WIDTH 32768u  // 255 * 128 * this, and as much again, stay below 2^31
#define TABLE 257u
#define FALL 65535u
#define AT_ONCE 4u         // products without a branch between: as many sums as the least of cores have registers for

mica_status_t mica_attend_s8_check(const mica_attend_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->heads || !p->m || !p->t || !p->d || !p->e || p->heads > MICA_MAX_BYTES || p->d > MOST_WIDTH) {
        return MICA_ERR_SHAPE;
    }
    const uint64_t wide = p->d > p->e ? p->d : p->e, high = p->m > p->t ? p->m : p->t;  // below 2^16 each
    if (wide * high > MICA_MAX_BYTES || wide * high * p->heads > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    *what = "the largest difference leaves the table";
    const uint64_t most = (uint64_t)p->limit * p->fall;
    if (p->limit < 1 || most > UINT32_MAX || most >> p->fall_shift > FALL) {
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

mica_status_t mica_attend_s8_check_constants(const mica_attend_s8_t *p, const char **what) {
    *what = "the table begins below 256, or rises, or its sums can overflow";
    bool sound = p->table[0] >= 256 && (uint64_t)255 * p->table[0] * p->t < (uint64_t)1 << 31;
    for (uint32_t i = 1; i < TABLE; ++i) {
        sound = sound && p->table[i] <= p->table[i - 1];
    }
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_attend_s8_scratch_bytes(const mica_attend_s8_t *p) {
    return 4u * ((uint32_t)p->t + p->d);
}

uint32_t mica_attend_s8_rows(const mica_attend_s8_t *p) {
    return p->heads * p->m;
}

// Scores of n rows of keys into s; returns the largest. x: the query without its zero point.
static int32_t scores(const mica_attend_s8_t *p, const int8_t *q, const int8_t *k, int32_t *x, int32_t *s, uint32_t n) {
    int32_t sum = 0, most = INT32_MIN;
    for (uint32_t i = 0; i < p->d; ++i) {
        x[i] = q[i] - p->q_zero;
        sum += x[i];
    }
    sum *= p->k_zero;
    for (uint32_t t = 0; t < n; ++t) {
        int32_t acc = 0;
        const int32_t *a = x, *end = x + p->d;
        for (const int32_t *last = end - p->d % AT_ONCE; a != last; a += AT_ONCE, k += AT_ONCE) {
            acc += a[0] * k[0] + a[1] * k[1] + a[2] * k[2] + a[3] * k[3];
        }
        for (; a != end; ++a, ++k) {
            acc += *a * *k;
        }
        acc -= sum;
        most = acc > most ? acc : most;
        s[t] = acc;
    }
    return most;
}

// Weights in the place of scores; returns their sum.
static uint32_t weights(const mica_attend_s8_t *p, int32_t most, int32_t *s, uint32_t n) {
    uint32_t total = 0;
    for (uint32_t t = 0; t < n; ++t) {
        uint32_t apart = (uint32_t)most - (uint32_t)s[t];
        const uint32_t u = (apart < p->limit ? apart : p->limit) * p->fall >> p->fall_shift;
        uint32_t a = p->table[u >> 8], b = p->table[(u >> 8) + 1];
        a = a < p->first ? a : p->first;  // as it was checked, also where the file has changed since
        b = b < a ? b : a;
        const uint32_t w = a - ((a - b) * (u & 255) >> 8);
        s[t] = (int32_t)w;
        total += w;
    }
    return total ? total : 1;  // only a file that changed since it was loaded comes to 0
}

void mica_attend_s8_ref(const mica_attend_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int32_t *s = scratch, *x = s + p->t;
    const uint32_t n = mica_attend_s8_seen(p);
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const size_t head = row / p->m;
        const int32_t most = scores(p, p->q + (size_t)row * p->d, p->k + head * p->t * p->d, x, s, n);
        const uint32_t total = weights(p, most, s, n);
        int32_t z = 0;
        while (!(total << z >> 31)) {
            ++z;
        }
        uint64_t inverse = ((uint64_t)1 << 62) / (total << z);
        inverse = inverse < INT32_MAX ? inverse : INT32_MAX;
        const int32_t mult = (int32_t)(inverse * (uint32_t)p->mult >> 31), shift = 31 - z + p->shift;  // 2 to 31
        const int32_t zeros = (int32_t)((uint32_t)p->v_zero * total);
        const int8_t *v = p->v + head * p->t * p->e;
        int8_t *y = p->y + (size_t)row * p->e;
        uint32_t from = 0;
        for (; from + AT_ONCE <= p->e; from += AT_ONCE) {
            int32_t a = -zeros, b = a, c = a, d = a;
            const int8_t *value = v + from;
            for (const int32_t *w = s, *end = s + n; w != end; ++w, value += p->e) {
                a += *w * value[0];
                b += *w * value[1];
                c += *w * value[2];
                d += *w * value[3];
            }
            y[from] = mica_requant_s8(a, mult, shift, p->y_zero, p->act_min, p->act_max);
            y[from + 1] = mica_requant_s8(b, mult, shift, p->y_zero, p->act_min, p->act_max);
            y[from + 2] = mica_requant_s8(c, mult, shift, p->y_zero, p->act_min, p->act_max);
            y[from + 3] = mica_requant_s8(d, mult, shift, p->y_zero, p->act_min, p->act_max);
        }
        for (; from < p->e; ++from) {
            int32_t acc = -zeros;
            const int8_t *value = v + from;
            for (const int32_t *w = s, *end = s + n; w != end; ++w, value += p->e) {
                acc += *w * *value;
            }
            y[from] = mica_requant_s8(acc, mult, shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

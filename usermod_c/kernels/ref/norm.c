// Normalisation of rows in 32 bits; contract in mica_kernels.h, formula and error in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_NORM_S8

#include "requant.h"
#include "shape.h"

#define MOST 32704u  // of an element that is normalised, before what rounding adds

mica_status_t mica_norm_s8_check(const mica_norm_s8_t *p, const char **what) {
    if (!p->rows || !p->n || (uint64_t)p->rows * p->n > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    if (p->mode > MICA_NORM_SQUARES || p->each > 1 || p->fraction > 16 || p->epsilon > INT32_MAX || p->factor == 0
        || p->up < -24 || p->up > 16 || p->offset <= -(1 << 30) || p->offset >= 1 << 30) {
        *what = "a parameter is out of its range";
        return MICA_ERR_RANGE;
    }
    const uint64_t n = p->n, low = (uint32_t)(p->x_zero + 128), high = (uint32_t)(127 - p->x_zero),
        far = low > high ? low : high;
    const uint64_t spread = p->mode == MICA_NORM_DEVIATION ? n * n * (255 * 255) / 4 : n * far * far;  // below 2^46
    if ((spread << p->fraction) + p->epsilon > UINT32_MAX
        || (p->mode == MICA_NORM_DEVIATION && n * p->factor > 1 << 24)) {
        *what = "the sums of a row can leave 32 bits";
        return MICA_ERR_RANGE;
    }
    // No element of n lies further than sqrt(n - 1) standard deviations from their mean. n is 514 at most here.
    const uint64_t reach = p->mode == MICA_NORM_DEVIATION && n > 1 ? n - 1 : 1;
    const uint64_t most = reach * 63 * p->factor * p->factor;  // below 2^47
    const int32_t down = 8 + p->fraction - 2 * p->up;
    if (down < 0 || (down < 24 && most > (uint64_t)(MOST * MOST) << down)) {
        *what = "elements that are normalised can leave 16 bits";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

mica_status_t mica_norm_s8_check_constants(const mica_norm_s8_t *p, const char **what) {
    if (!mica_aligned4(p->terms)) {
        *what = "the terms are not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    const int32_t *t = p->terms;
    for (uint32_t i = 0; i < p->n; ++i) {
        const int32_t gamma = *t++, offset = p->each ? *t++ : 0;
        if (gamma < INT16_MIN || gamma > INT16_MAX || offset <= -(1 << 30) || offset >= 1 << 30) {
            *what = "gamma or an offset is so large that a result can overflow";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

uint32_t mica_norm_s8_rows(const mica_norm_s8_t *p) {
    return p->rows;
}

// v * 2^up, rounded, halves up
static inline int32_t shifted(int32_t v, int32_t up) {
    return up >= 0 ? (int32_t)((uint32_t)v << up) : ((v >> (-up - 1)) + 1) >> 1;
}

// t = (x * factor - centre + 2^15) >> 16
typedef struct {
    uint32_t factor, centre;
} scale_t;

// Of the sum of a row and that of its squares; or of the zero point and the sum of the squares of x - x_zero.
// Everything fits 32 bits: SPEC.md.
static scale_t scale_of(const mica_norm_s8_t *p, int32_t centre, uint32_t squares) {
    const bool deviation = p->mode == MICA_NORM_DEVIATION;
    uint32_t w = ((deviation ? p->n * squares - (uint32_t)centre * (uint32_t)centre : squares) << p->fraction)
        + p->epsilon;
    if (w == 0) {
        return (scale_t) { 0, 0 };
    }
    int32_t up = p->up;
    for (; w >> 24 == 0; w <<= 8) {
        up += 4;
    }
    for (; w >> 30 == 0; w <<= 2) {
        ++up;
    }
    const int32_t m = (int32_t)(((w >> 15) + 1) >> 1), target = (63 << 24) - (m >> 1);
    int32_t r = 69250 - (int32_t)((uint32_t)m * 39500u >> 16);
    for (uint32_t i = 0; i < 3; ++i) {
        r += ((target - (int32_t)((uint32_t)r * (uint32_t)r >> 16) * m) >> 14) * r >> 17;
    }
    const int32_t s = (int32_t)((((uint32_t)r * p->factor >> 15) + 1) >> 1);
    return (scale_t) { (uint32_t)shifted(deviation ? p->n * s : s, up), (uint32_t)shifted(centre * s, up) };
}

static scale_t measure(const mica_norm_s8_t *p, const int8_t *x) {
    const int8_t *end = x + p->n;
    uint32_t squares = 0;
    if (p->mode == MICA_NORM_SQUARES) {
        const int32_t zero = p->x_zero;
        for (; x != end; ++x) {
            const int32_t d = *x - zero;
            squares += (uint32_t)(d * d);
        }
        return scale_of(p, zero, squares);
    }
    int32_t sum = 0;
    for (; x != end; ++x) {
        sum += *x;
        squares += (uint32_t)(*x * *x);
    }
    return scale_of(p, sum, squares);
}

void mica_norm_s8_ref(const mica_norm_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const uint32_t n = p->n;
    const int32_t low = p->act_min, high = p->act_max;
    const int8_t *x = p->x + (size_t)row_begin * n;
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const scale_t s = measure(p, x);
        const uint32_t minus = (1u << 15) - s.centre;
        const int32_t *terms = p->terms;
        int32_t offset = p->offset;
        for (const int8_t *end = x + n; x != end; ++x, ++y) {
            const int32_t t = (int32_t)((uint32_t)(int32_t)*x * s.factor + minus) >> 16, gamma = *terms++;
            if (p->each) {
                offset = *terms++;
            }
            *y = (int8_t)mica_clamp(((t * gamma + offset) >> 20) - 128, low, high);
        }
    }
}

#endif

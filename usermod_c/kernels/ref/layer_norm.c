// Normalisation of rows by their standard deviation or norm; contract in mica_kernels.h, formula and error in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_LAYER_NORM_S8

#include "integer_math.h"
#include "requant.h"
#include "shape.h"

mica_status_t mica_layer_norm_s8_check(const mica_layer_norm_s8_t *p, const char **what) {
    if (!p->rows || !p->n || !p->inner || !p->channels || (uint64_t)p->rows * p->n > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    if (p->n % p->inner || p->channels % (p->n / p->inner)) {
        *what = "the channels do not divide the rows";
        return MICA_ERR_SHAPE;
    }
    if (p->mode > MICA_NORM_ABSOLUTE || p->shift > 30 || p->epsilon >> 62) {
        *what = "an unknown mode, a shift above 30, or an epsilon of 2^62";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

size_t mica_layer_norm_s8_x_bytes(const mica_layer_norm_s8_t *p) {
    return (size_t)p->rows * p->n;
}

mica_status_t mica_layer_norm_s8_check_constants(const mica_layer_norm_s8_t *p, const char **what) {
    if (!mica_aligned4(p->gamma) || !mica_aligned4(p->beta)) {
        *what = "gamma or beta is not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    // No element of n lies further than sqrt(n - 1) standard deviations from their mean.
    int64_t most = mica_root(p->n) + 2;
    for (uint32_t c = 0; c < p->channels; ++c) {
        int64_t gamma = p->gamma[c], beta = p->beta[c];
        if ((gamma < 0 ? -gamma : gamma) * most + (beta < 0 ? -beta : beta) + ((1 << p->shift) >> 1) >= INT32_MAX) {
            *what = "gamma or beta is so large that a result can overflow";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

uint32_t mica_layer_norm_s8_rows(const mica_layer_norm_s8_t *p) {
    return p->rows;
}

// What a row is divided by: 1 / sqrt(spread) = scale * 2^(shift - 40); scale is 0 where the spread is.
typedef struct {
    int32_t centre, scale, shift;
} row_t;

// Sum of (x - zero)^2, at most 255 * 255 * 65535 < 2^32.
static inline uint32_t sum_squares(const int8_t *x, uint32_t n, int32_t zero) {
    uint32_t sum = 0;
    const int8_t *end = x + n, *fours = x + (n & ~3u);
    for (; x != fours; x += 4) {
        const int32_t a = x[0] - zero, b = x[1] - zero, c = x[2] - zero, d = x[3] - zero;
        sum += (uint32_t)(a * a) + (uint32_t)(b * b) + (uint32_t)(c * c) + (uint32_t)(d * d);
    }
    for (; x != end; ++x) {
        const int32_t v = *x - zero;
        sum += (uint32_t)(v * v);
    }
    return sum;
}

static row_t measure(const mica_layer_norm_s8_t *p, const int8_t *x) {
    int32_t sum = 0, zero = p->mode == MICA_NORM_DEVIATION ? 0 : p->x_zero;
    uint32_t squares = 0, absolute = 0;
    if (p->mode != MICA_NORM_ABSOLUTE) {
        squares = sum_squares(x, p->n, zero);
    }
    for (uint32_t i = 0; p->mode != MICA_NORM_SQUARES && i < p->n; ++i) {
        int32_t v = x[i] - zero;
        sum += v;
        absolute += (uint32_t)(v < 0 ? -v : v);
    }
    uint64_t spread = squares;
    if (p->mode == MICA_NORM_DEVIATION) {
        spread = (uint64_t)p->n * squares - (uint64_t)((int64_t)sum * sum);  // n^2 times the variance, below 2^46
    } else if (p->mode == MICA_NORM_ABSOLUTE) {
        spread = (uint64_t)absolute * absolute;  // below 2^48
    }
    row_t row = { p->mode == MICA_NORM_DEVIATION ? sum : zero, 0, 0 };
    spread = (spread << 14) + p->epsilon;
    if (spread == 0) {
        return row;
    }
    for (; spread >> 54 == 0; spread <<= 8) {
        row.shift += 4;
    }
    for (; spread >> 62 == 0; spread <<= 2) {
        ++row.shift;
    }
    // sqrt(spread) is between 2^15 and 2^16 times a power of two, and so is 2^31 over it.
    uint32_t root = mica_root((uint32_t)(spread >> 32));
    row.scale = (int32_t)(((1u << 31) + root / 2) / root);
    return row;
}

// y = gamma * normal + beta, with normal in units of 2^-20. |normal| <= sqrt(n), so that it fits an int32.
typedef struct {
    int32_t factor, half, shift, zero, low, high;
} affine_t;

static inline int8_t finish(const affine_t *a, int32_t normal, int32_t gamma, int32_t beta) {
    int32_t v = mica_product_20(normal, gamma) + beta;
    return (int8_t)(a->zero + mica_clamp((v + a->half) >> a->shift, a->low, a->high));
}

// n elements, of one channel (step 0) or each of the next (1). Where |factor * x - centre| < 2^15: with a scale of at most 2^16 the
// product fits 32 bits.
static void narrow(const affine_t *a, const row_t *r, const int32_t *gamma, const int32_t *beta, uint32_t step, const int8_t *x,
    int8_t *y, uint32_t n) {
    const int32_t left = r->shift > 20 ? r->shift - 20 : 0, right = r->shift < 20 ? 20 - r->shift : 0;
    // Each of these products may need more than 32 bits; what is left of them does not.
    const uint32_t factor = (uint32_t)a->factor * (uint32_t)r->scale, centre = (uint32_t)r->centre * (uint32_t)r->scale;
    for (uint32_t i = 0; i < n; ++i, gamma += step, beta += step) {
        const int32_t v = x[i];
        const uint32_t d = factor * (uint32_t)v - centre;
        y[i] = finish(a, (int32_t)(d << left) >> right, *gamma, *beta);
    }
}

static void wide(const affine_t *a, const row_t *r, const int32_t *gamma, const int32_t *beta, uint32_t step, const int8_t *x,
    int8_t *y, uint32_t n) {
    const int32_t left = r->shift > 20 ? r->shift - 20 : 0, right = r->shift < 20 ? 20 - r->shift : 0;
    for (uint32_t i = 0; i < n; ++i, gamma += step, beta += step) {
        int64_t d = (int64_t)(a->factor * x[i] - r->centre) * r->scale;
        y[i] = finish(a, (int32_t)(d * (1 << left) >> right), *gamma, *beta);
    }
}

void mica_layer_norm_s8_ref(const mica_layer_norm_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const uint32_t n = p->n, inner = p->inner, parts = inner == 1 ? n : n / inner;
    const affine_t a = {
        .factor = p->mode == MICA_NORM_DEVIATION ? (int32_t)n : 1,
        .half = (1 << p->shift) >> 1,
        .shift = p->shift,
        .zero = p->y_zero,
        .low = p->act_min - p->y_zero,
        .high = p->act_max - p->y_zero,
    };
    const bool fits = a.factor <= INT16_MAX / 255;
    const uint32_t step = inner == 1, many = step ? parts : inner;
    const int8_t *x = p->x + (size_t)row_begin * n;
    int8_t *y = p->y + (size_t)row_begin * n;

    // The first channel of a row; parts divides the channels.
    uint32_t first = row_begin == 0 ? 0 : (uint32_t)((uint64_t)row_begin * parts % p->channels);
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const row_t r = measure(p, x);
        uint32_t c = first;
        first = first + parts < p->channels ? first + parts : 0;
        for (uint32_t done = 0; done < n; done += many, ++c, x += many, y += many) {
            (fits ? narrow : wide)(&a, &r, p->gamma + c, p->beta + c, step, x, y, many);
        }
    }
}

#endif

// mica: the arithmetic of layer_norm_s8. Formula and error in SPEC.md.
#ifndef MICA_LAYER_NORM_H
#define MICA_LAYER_NORM_H

#include "integer_math.h"
#include "mica_kernels.h"
#include "requant.h"

#define MICA_NORM_NARROW (INT16_MAX / 255) // elements of a DEVIATION whose products fit 32 bits: |n * x - sum| < 2^15

// What a row is divided by: 1 / sqrt(spread) = scale * 2^(shift - 40); scale is 0 where the spread is.
typedef struct {
    int32_t centre, scale, shift;
} mica_norm_row_t;

// Of a row's sums: of all x; of their squares, in other modes those of x - x_zero; of the magnitudes of x - x_zero.
static inline mica_norm_row_t mica_norm_row(const mica_layer_norm_s8_t *p, int32_t sum, uint32_t squares,
    uint32_t absolute) {
    const int32_t zero = p->x_zero;
    uint64_t spread = squares;
    if (p->mode == MICA_NORM_DEVIATION) {
        spread = (uint64_t)p->n * squares - (uint64_t)((int64_t)sum * sum);  // n^2 times the variance, below 2^46
    } else if (p->mode == MICA_NORM_ABSOLUTE) {
        spread = (uint64_t)absolute * absolute;  // below 2^48
    }
    mica_norm_row_t row = { p->mode == MICA_NORM_DEVIATION ? sum : zero, 0, 0 };
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
} mica_norm_t;

static inline int8_t mica_norm_finish(const mica_norm_t *a, int32_t normal, int32_t gamma, int32_t beta) {
    int32_t v = mica_product_20(normal, gamma) + beta;
    return (int8_t)(a->zero + mica_clamp((v + a->half) >> a->shift, a->low, a->high));
}

static inline mica_norm_t mica_norm(const mica_layer_norm_s8_t *p) {
    return (mica_norm_t) {
        .factor = p->mode == MICA_NORM_DEVIATION ? (int32_t)p->n : 1,
        .half = (1 << p->shift) >> 1,
        .shift = p->shift,
        .zero = p->y_zero,
        .low = p->act_min - p->y_zero,
        .high = p->act_max - p->y_zero,
    };
}

// n elements, of one channel (step 0) or each of the next (1). Where |factor * x - centre| < 2^15: with a scale of at
// most 2^16 the product fits 32 bits.
static inline void mica_norm_narrow(const mica_norm_t *a, const mica_norm_row_t *r, const int32_t *gamma,
    const int32_t *beta, uint32_t step, const int8_t *x, int8_t *y, uint32_t n) {
    const int32_t left = r->shift > 20 ? r->shift - 20 : 0, right = r->shift < 20 ? 20 - r->shift : 0;
    // Each of these products may need more than 32 bits; what is left of them does not.
    const uint32_t factor = (uint32_t)a->factor * (uint32_t)r->scale, centre = (uint32_t)r->centre * (uint32_t)r->scale;
    for (uint32_t i = 0; i < n; ++i, gamma += step, beta += step) {
        const int32_t v = x[i];
        const uint32_t d = factor * (uint32_t)v - centre;
        y[i] = mica_norm_finish(a, (int32_t)(d << left) >> right, *gamma, *beta);
    }
}

static inline void mica_norm_wide(const mica_norm_t *a, const mica_norm_row_t *r, const int32_t *gamma,
    const int32_t *beta, uint32_t step, const int8_t *x, int8_t *y, uint32_t n) {
    const int32_t left = r->shift > 20 ? r->shift - 20 : 0, right = r->shift < 20 ? 20 - r->shift : 0;
    for (uint32_t i = 0; i < n; ++i, gamma += step, beta += step) {
        int64_t d = (int64_t)(a->factor * x[i] - r->centre) * r->scale;
        y[i] = mica_norm_finish(a, (int32_t)(d * (1 << left) >> right), *gamma, *beta);
    }
}

#endif

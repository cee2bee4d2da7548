// Normalisation of rows by their standard deviation or norm; contract in mica_kernels.h, formula and error in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_LAYER_NORM_S8

#include "integer_math.h"
#include "layer_norm.h"
#include "shape.h"

mica_status_t mica_layer_norm_s8_check(const mica_layer_norm_s8_t *p, const char **what) {
    if (!p->rows || !p->n || !p->inner || !p->channels || (uint64_t)p->rows * p->n > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    if (p->n % p->inner || (p->channels % (p->n / p->inner) && (p->inner != 1 || p->n % p->channels))) {
        *what = "the channels do not divide the rows";
        return MICA_ERR_SHAPE;
    }
    if (p->mode > MICA_NORM_ABSOLUTE || p->shift > 30 || p->epsilon >> 62) {
        *what = "an unknown mode, a shift above 30, or an epsilon of 2^62";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
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

static mica_norm_row_t measure(const mica_layer_norm_s8_t *p, const int8_t *x) {
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
    return mica_norm_row(p, sum, squares, absolute);
}

void mica_layer_norm_s8_ref(const mica_layer_norm_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const uint32_t n = p->n, inner = p->inner, parts = inner == 1 ? n : n / inner;
    const mica_norm_t a = mica_norm(p);
    const bool fits = a.factor <= MICA_NORM_NARROW;
    const uint32_t step = inner == 1, many = !step ? inner : parts < p->channels ? parts : p->channels;
    const int8_t *x = p->x + (size_t)row_begin * n;
    int8_t *y = p->y + (size_t)row_begin * n;

    // The first channel of a row: parts divides the channels, or they divide it and each row begins with the first.
    uint32_t first = row_begin == 0 ? 0 : (uint32_t)((uint64_t)row_begin * parts % p->channels);
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const mica_norm_row_t r = measure(p, x);
        uint32_t c = first;
        first = first + parts < p->channels ? first + parts : 0;
        for (uint32_t done = 0; done < n; done += many, c += !step, x += many, y += many) {
            (fits ? mica_norm_narrow : mica_norm_wide)(&a, &r, p->gamma + c, p->beta + c, step, x, y, many);
        }
    }
}

#endif

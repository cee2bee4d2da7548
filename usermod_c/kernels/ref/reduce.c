// Sums, extremes, norms and logarithms over one axis; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_REDUCE_S8

#include "integer_math.h"
#include "requant.h"
#include "shape.h"

#define MOST_BIAS (1 << 24)  // 2^16 times the logarithm of a scale: |log2| up to 256

mica_status_t mica_reduce_s8_check(const mica_reduce_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    uint64_t x = (uint64_t)p->outer * p->n;
    if (x == 0 || p->inner == 0 || x > MICA_MAX_BYTES || x * p->inner > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    if (p->mode > MICA_REDUCE_LOG || (p->bias != 0 && p->mode != MICA_REDUCE_LOG) || p->bias < -MOST_BIAS
        || p->bias > MOST_BIAS) {
        *what = "an unknown mode, or a bias that it does not have";
        return MICA_ERR_RANGE;
    }
    bool squares = p->mode == MICA_REDUCE_SQUARES || p->mode == MICA_REDUCE_ROOT;
    bool sums = p->mode != MICA_REDUCE_MAX && p->mode != MICA_REDUCE_MIN;
    if (sums && p->n > (squares ? 33025u : 1u << 23)) {
        *what = "the sum can overflow: too many elements";
        return MICA_ERR_RANGE;
    }
    mica_status_t status = mica_requant_check(&p->mult, &p->shift, 1, what);
    return status != MICA_OK ? status : mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_reduce_s8_rows(const mica_reduce_s8_t *p) {
    return p->outer * p->inner;
}

// What the elements x[0], x[step], ... add up to, or the extreme one.
static int32_t gather(const mica_reduce_s8_t *p, const int8_t *x) {
    size_t step = p->inner;
    int32_t zero = p->x_zero, acc = p->mode == MICA_REDUCE_MAX ? -128 : p->mode == MICA_REDUCE_MIN ? 127 : 0;
    for (uint32_t i = p->n; i != 0; --i, x += step) {
        int32_t v = *x, d = v - zero;
        switch (p->mode) {
            case MICA_REDUCE_MAX:
                acc = v > acc ? v : acc;
                break;
            case MICA_REDUCE_MIN:
                acc = v < acc ? v : acc;
                break;
            case MICA_REDUCE_SQUARES:
            case MICA_REDUCE_ROOT:
                acc += d * d;
                break;
            case MICA_REDUCE_ABSOLUTE:
                acc += d < 0 ? -d : d;
                break;
            default:
                acc += d;
                break;
        }
    }
    return acc;
}

// 2^15 * sqrt(v), v in [0, 2^31), to 16 significant bits.
static int32_t scaled_root(uint32_t v) {
    uint32_t places = 15;
    for (; v != 0 && v >> 30 == 0; v <<= 2) {
        --places;
    }
    return (int32_t)(mica_root(v) << places);
}

void mica_reduce_s8_ref(const mica_reduce_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t low = p->act_min, high = p->act_max;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        int32_t acc = gather(p, p->x + (size_t)(row / p->inner) * p->n * p->inner + row % p->inner);
        int8_t y;
        if (p->mode == MICA_REDUCE_MAX || p->mode == MICA_REDUCE_MIN) {
            y = (int8_t)mica_clamp(acc, low, high);
        } else if (p->mode == MICA_REDUCE_LOG && acc <= 0) {
            y = p->act_min;  // the logarithm of 0, and of what has none
        } else {
            if (p->mode == MICA_REDUCE_ROOT) {
                acc = scaled_root((uint32_t)acc);
            } else if (p->mode == MICA_REDUCE_LOG) {
                acc = (int32_t)mica_log2((uint32_t)acc) + p->bias;
            }
            y = mica_requant_s8(acc, p->mult, p->shift, p->y_zero, low, high);
        }
        p->y[row] = y;
    }
}

#endif

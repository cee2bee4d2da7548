// Rows of two halves, turned against each other; contract in mica_kernels.h, formula in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_ROTATE_S8

#include "requant.h"
#include "shape.h"

#define LARGEST 65025  // 255 * 255

mica_status_t mica_rotate_s8_check(const mica_rotate_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->rows || !p->half || !p->turns || !p->inner || p->half > MICA_MAX_BYTES / 2
        || (uint64_t)p->rows * p->half > MICA_MAX_BYTES / 2) {
        return MICA_ERR_SHAPE;
    }
    *what = "the rotations do not divide the rows";
    const uint64_t round = (uint64_t)p->turns * p->inner;
    if (round > p->rows || p->rows % (uint32_t)round) {
        return MICA_ERR_SHAPE;
    }
    *what = "mult_c or mult_s is negative or too large";
    if (p->mult_c < 0 || p->mult_s < 0 || p->shift < 1 || p->shift > 30
        || LARGEST * ((int64_t)p->mult_c + p->mult_s) + ((int64_t)1 << (p->shift - 1)) > INT32_MAX) {
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_rotate_s8_rows(const mica_rotate_s8_t *p) {
    return p->rows;
}

void mica_rotate_s8_ref(const mica_rotate_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const uint32_t half = p->half;
    const int32_t shift = p->shift, x_zero = p->x_zero, y_zero = p->y_zero, low = p->act_min, high = p->act_max;
    const int32_t offset = 1 << (shift - 1);
    for (uint32_t row = row_begin; row < row_end;) {
        // Rows that are turned alike: angle after angle, so that each is multiplied once.
        const uint32_t turn = row / p->inner, last = (turn + 1) * p->inner, end = last < row_end ? last : row_end;
        const size_t at = (size_t)(turn % p->turns) * half;
        const int8_t *first = p->x + (size_t)row * 2 * half;
        int8_t *to = p->y + (size_t)row * 2 * half;
        for (uint32_t i = 0; i < half; ++i) {
            const int32_t c = (p->c[at + i] - p->c_zero) * p->mult_c, s = (p->s[at + i] - p->s_zero) * p->mult_s;
            const int8_t *x = first + i;
            int8_t *y = to + i;
            for (uint32_t n = end - row; n; --n, x += 2 * half, y += 2 * half) {
                const int32_t a = x[0] - x_zero, b = x[half] - x_zero;
                y[0] = (int8_t)mica_clamp(y_zero + ((a * c - b * s + offset) >> shift), low, high);
                y[half] = (int8_t)mica_clamp(y_zero + ((a * s + b * c + offset) >> shift), low, high);
            }
        }
        row = end;
    }
}

#endif

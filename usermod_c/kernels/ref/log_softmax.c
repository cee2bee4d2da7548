// Logarithm of the softmax over the last axis, or of the sum of the exponentials; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_LOG_SOFTMAX_S8

#include "integer_math.h"
#include "requant.h"
#include "shape.h"

static int64_t absolute(int64_t v) {
    return v < 0 ? -v : v;
}

mica_status_t mica_log_softmax_s8_check(const mica_log_softmax_s8_t *p, const char **what) {
    if (!p->rows || !p->axis || (uint64_t)p->rows * p->axis > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    if (255 * absolute(p->mult) + 32 * absolute(p->mult_log) + absolute(p->offset) > INT32_MAX || p->shift > 30) {
        *what = "the sum can overflow, or shift is above 30";
        return MICA_ERR_RANGE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

size_t mica_log_softmax_s8_y_bytes(const mica_log_softmax_s8_t *p) {
    return (size_t)p->rows * (p->sum ? 1u : p->axis);
}

mica_status_t mica_log_softmax_s8_check_constants(const mica_log_softmax_s8_t *p, const char **what) {
    return mica_exponentials_check(p->table, p->axis, what);
}

uint32_t mica_log_softmax_s8_rows(const mica_log_softmax_s8_t *p) {
    return p->rows;
}

void mica_log_softmax_s8_ref(const mica_log_softmax_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    uint32_t axis = p->axis, n = p->sum ? 1 : axis;  // elements of y in a row
    int32_t zero = p->y_zero, low = p->act_min - zero, high = p->act_max - zero;
    const int8_t *x = p->x + (size_t)row_begin * axis;
    int8_t *y = p->y + (size_t)row_begin * n;

    for (uint32_t row = row_begin; row < row_end; ++row, x += axis, y += n) {
        int32_t most = -128;
        for (uint32_t i = 0; i < axis; ++i) {
            most = x[i] > most ? x[i] : most;
        }
        uint32_t sum = 0;
        for (uint32_t i = 0; i < axis; ++i) {
            sum += p->table[most - x[i]];
        }
        sum += sum == 0;  // only a file that changed after it was loaded comes to this
        int32_t base = (int32_t)((int64_t)mica_log2(sum) * p->mult_log >> 16) + p->offset;
        if (p->sum) {
            y[0] = (int8_t)(zero + mica_clamp((most * p->mult + base) >> p->shift, low, high));
            continue;
        }
        for (uint32_t i = 0; i < axis; ++i) {
            y[i] = (int8_t)(zero + mica_clamp(((x[i] - most) * p->mult + base) >> p->shift, low, high));
        }
    }
}

#endif

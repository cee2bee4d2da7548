// Softmax of int16 over the last axis; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_SOFTMAX_S16

#include "shape.h"

#define BITS 24

mica_status_t mica_softmax_s16_check(const mica_softmax_s16_t *p, const char **what) {
    if (!p->rows || !p->axis || (uint64_t)p->rows * p->axis > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

mica_status_t mica_softmax_s16_check_constants(const mica_softmax_s16_t *p, const char **what) {
    bool sound = mica_aligned4(p->table) && p->table[0] == 1u << BITS && p->table[256] >= 1;
    for (uint32_t i = 0; sound && i < 256; ++i) {
        sound = p->table[i] <= 1u << BITS && (uint64_t)p->table[256 + i] * p->axis <= 1u << 31;
    }
    if (!sound) {
        *what = "the table begins with other than 2^24 and 1 or more, passes 2^24, or can overflow over this axis";
        return MICA_ERR_RANGE;
    }
    return MICA_OK;
}

uint32_t mica_softmax_s16_rows(const mica_softmax_s16_t *p) {
    return p->rows;
}

static uint32_t exponential(const uint32_t *table, uint32_t d) {
    return (uint32_t)(((uint64_t)table[d >> 8] * table[256 + (d & 255)] + (1u << (BITS - 1))) >> BITS);
}

void mica_softmax_s16_ref(const mica_softmax_s16_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const int16_t *x = p->x + (size_t)row * p->axis;
        int16_t *y = p->y + (size_t)row * p->axis;
        int32_t most = INT16_MIN;
        for (uint32_t i = 0; i < p->axis; ++i) {
            most = x[i] > most ? x[i] : most;
        }
        uint32_t sum = 0;
        for (uint32_t i = 0; i < p->axis; ++i) {
            sum += exponential(p->table, (uint32_t)(most - x[i]));
        }
        for (uint32_t i = 0; i < p->axis; ++i) {
            // 2^16 * e / sum, a bit at a time: e <= sum <= 2^31.
            uint32_t rest = exponential(p->table, (uint32_t)(most - x[i])), q = rest >= sum;
            rest -= q ? sum : 0;
            for (uint32_t bit = 0; bit < 16; ++bit) {
                const uint32_t one = rest << 1 >= sum;
                rest = (rest << 1) - (one ? sum : 0);
                q = q << 1 | one;
            }
            q = (q + 1) >> 1;
            y[i] = (int16_t)(q < INT16_MAX ? q : INT16_MAX);
        }
    }
}

#endif

// Softmax over the last axis; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_SOFTMAX_S8

#include "shape.h"

mica_status_t mica_softmax_s8_check(const mica_softmax_s8_t *p, const char **what) {
    if (!p->rows || !p->axis || (uint64_t)p->rows * p->axis > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or the tensor too large";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

mica_status_t mica_softmax_s8_check_constants(const mica_softmax_s8_t *p, const char **what) {
    mica_status_t status = mica_exponentials_check(p->table, p->axis, what);
    for (uint32_t d = 256; status == MICA_OK && p->wide && d < 512; ++d) {
        if (p->table[d] > 1u << 31) {
            *what = "a numerator passes 2^31";
            return MICA_ERR_RANGE;
        }
    }
    return status;
}

void mica_softmax_s8_ref(const mica_softmax_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    uint32_t axis = p->axis;
    int32_t room = 127 - p->y_zero;  // quotients beyond it saturate
    const int8_t *x = p->x + (size_t)row_begin * axis;
    int8_t *y = p->y + (size_t)row_begin * axis;

    for (uint32_t row = row_begin; row < row_end; ++row, x += axis, y += axis) {
        int32_t most = -128;
        for (uint32_t i = 0; i < axis; ++i) {
            most = x[i] > most ? x[i] : most;
        }
        uint32_t sum = 0;
        for (uint32_t i = 0; i < axis; ++i) {
            sum += p->table[most - x[i]];
        }
        sum += sum == 0;  // only a file that changed after it was loaded comes to this: no division by zero then
        for (uint32_t i = 0; i < axis; ++i) {
            int32_t d = most - x[i];
            uint32_t q = ((p->wide ? p->table[256 + d] : 256 * p->table[d]) + sum / 2) / sum;
            y[i] = (int8_t)(q > (uint32_t)room ? 127 : (int32_t)q + p->y_zero);
        }
    }
}

#endif

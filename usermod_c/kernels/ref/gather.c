// Picks along an axis by constant indices; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#ifndef MICA_WITHOUT_GATHER_S8

#include "shape.h"

mica_status_t mica_gather_s8_check(const mica_gather_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->rows || !p->inner || !p->x_n || !p->y_n || p->rows > MICA_MAX_BYTES || p->inner > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    uint64_t one = (uint64_t)p->rows * p->inner;  // below 2^62; a dimension more could pass 2^64
    bool fits = one <= MICA_MAX_BYTES && one * p->x_n <= MICA_MAX_BYTES && one * p->y_n <= MICA_MAX_BYTES;
    return fits ? MICA_OK : MICA_ERR_SHAPE;
}

mica_status_t mica_gather_s8_check_constants(const mica_gather_s8_t *p, const char **what) {
    if (!mica_aligned4(p->indices)) {
        *what = "indices are not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    for (uint32_t j = 0; j < p->y_n; ++j) {
        if (p->indices[j] < 0 || p->indices[j] >= p->x_n) {
            *what = "an index lies outside the input";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

uint32_t mica_gather_s8_rows(const mica_gather_s8_t *p) {
    return p->rows;
}

void mica_gather_s8_ref(const mica_gather_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    size_t inner = p->inner;
    int8_t *y = p->y + (size_t)row_begin * p->y_n * inner;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int8_t *x = p->x + (size_t)r * p->x_n * inner;
        for (uint32_t j = 0; j < p->y_n; ++j, y += inner) {
            uint32_t i = (uint32_t)p->indices[j];
            i = i < p->x_n ? i : 0;  // the file may have changed since
            if (inner == 1) {
                *y = x[i];
            } else {
                memcpy(y, x + i * inner, inner);
            }
        }
    }
}

#endif

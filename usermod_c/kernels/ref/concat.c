// Tensors one behind the other along an axis; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#ifndef MICA_WITHOUT_CONCAT_S8

mica_status_t mica_concat_s8_check(const mica_concat_s8_t *p, const char **what) {
    *what = "no input, too many, or an empty one";
    if (p->n == 0 || p->n > MICA_MAX_INPUTS || p->rows == 0) {
        return MICA_ERR_SHAPE;
    }
    uint64_t row = 0;
    for (uint32_t k = 0; k < p->n; ++k) {
        if (p->part[k] == 0) {
            return MICA_ERR_SHAPE;
        }
        row += p->part[k];
    }
    if (row > MICA_MAX_BYTES || row * p->rows > MICA_MAX_BYTES) {
        *what = "the output is too large";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

static uint32_t row_of(const mica_concat_s8_t *p) {
    uint32_t row = 0;
    for (uint32_t k = 0; k < p->n; ++k) {
        row += p->part[k];
    }
    return row;
}

uint32_t mica_concat_s8_rows(const mica_concat_s8_t *p) {
    return p->rows;
}

void mica_concat_s8_ref(const mica_concat_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int8_t *y = p->y + (size_t)row_begin * row_of(p);
    for (uint32_t r = row_begin; r < row_end; ++r) {
        for (uint32_t k = 0; k < p->n; ++k) {
            memcpy(y, p->x[k] + (size_t)r * p->part[k], p->part[k]);
            y += p->part[k];
        }
    }
}

#endif

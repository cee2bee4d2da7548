// A copy, or the same bytes, in which some rows are other ones; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#ifndef MICA_WITHOUT_SCATTER_S8

mica_status_t mica_scatter_s8_check(const mica_scatter_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->rows || !p->inner || !p->x_n || !p->r_n || p->rows > MICA_MAX_BYTES || p->inner > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    uint64_t one = (uint64_t)p->rows * p->inner;  // below 2^62; a dimension more could pass 2^64
    if (one > MICA_MAX_BYTES || one * p->x_n > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    *what = "as many rows as there are places for, or indices that do not divide them";
    return p->r_n < p->x_n && p->per_index && p->rows % p->per_index == 0 ? MICA_OK : MICA_ERR_SHAPE;
}

uint32_t mica_scatter_s8_rows(const mica_scatter_s8_t *p) {
    return p->rows;
}

static uint32_t first_place(const mica_scatter_s8_t *p, int32_t i) {
    int32_t n = p->x_n, last = n - p->r_n;
    if (p->circular) {
        i %= n;
        return (uint32_t)(i < 0 ? i + n : i);
    }
    return (uint32_t)(i < 0 ? 0 : i > last ? last : i);
}

void mica_scatter_s8_ref(const mica_scatter_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const size_t inner = p->inner, size = p->x_n * inner, more = p->r_n * inner;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        int8_t *y = p->y + row * size;
        const int8_t *r = p->rows_of + row * more;
        if (p->y != p->x) {
            memcpy(y, p->x + row * size, size);
        }
        const size_t at = first_place(p, p->index[row / p->per_index]) * inner;
        const size_t behind = at + more > size ? size - at : more;
        memcpy(y + at, r, behind);
        memcpy(y, r + behind, more - behind);
    }
}

#endif

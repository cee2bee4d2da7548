// Rows of a constant table by the numbers of an int32 tensor; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#ifndef MICA_WITHOUT_EMBEDDING_S8

mica_status_t mica_embedding_s8_check(const mica_embedding_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    bool fits = p->rows && p->vocabulary && p->width && p->vocabulary <= MICA_MAX_BYTES && p->rows <= MICA_MAX_BYTES / 4
        && (uint64_t)p->rows * p->width <= MICA_MAX_BYTES && (uint64_t)p->vocabulary * p->width <= MICA_MAX_BYTES;
    return fits ? MICA_OK : MICA_ERR_SHAPE;
}

size_t mica_embedding_s8_table_bytes(const mica_embedding_s8_t *p) {
    return (size_t)p->vocabulary * p->width;
}

uint32_t mica_embedding_s8_rows(const mica_embedding_s8_t *p) {
    return p->rows;
}

void mica_embedding_s8_ref(const mica_embedding_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t n = (int32_t)p->vocabulary;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        int32_t i = p->x[r];
        i = i < 0 ? i + n : i;
        i = i < 0 ? 0 : i >= n ? n - 1 : i;
        memcpy(p->y + (size_t)r * p->width, p->table + (size_t)i * p->width, p->width);
    }
}

#endif

// Where the largest or smallest element of an axis is; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_ARGMAX_S8

#include "shape.h"

mica_status_t mica_argmax_s8_check(const mica_argmax_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    uint64_t x = (uint64_t)p->outer * p->n, y = (uint64_t)p->outer * p->inner;
    bool fits = x != 0 && y != 0 && x <= MICA_MAX_BYTES && x * p->inner <= MICA_MAX_BYTES && y <= MICA_MAX_BYTES / 4;
    return fits ? MICA_OK : MICA_ERR_SHAPE;
}

size_t mica_argmax_s8_y_bytes(const mica_argmax_s8_t *p) {
    return (size_t)p->outer * p->inner * 4;
}

uint32_t mica_argmax_s8_rows(const mica_argmax_s8_t *p) {
    return p->outer * p->inner;
}

void mica_argmax_s8_ref(const mica_argmax_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int32_t sign = p->minimum ? -1 : 1;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const int8_t *x = p->x + (size_t)(row / p->inner) * p->n * p->inner + row % p->inner;
        int32_t best = sign * *x, found = 0;
        for (uint32_t i = 1; i < p->n; ++i) {
            x += p->inner;
            int32_t v = sign * *x;
            if (v > best || (v == best && p->select_last)) {
                best = v;
                found = (int32_t)i;
            }
        }
        p->y[row] = found;
    }
}

#endif

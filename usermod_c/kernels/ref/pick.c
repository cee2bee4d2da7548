// Elements along an axis at places that another tensor says; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_PICK_S8

#include "shape.h"

mica_status_t mica_pick_s8_check(const mica_pick_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->outer || !p->n || !p->inner || !p->k || p->outer > MICA_MAX_BYTES || p->inner > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    uint64_t one = (uint64_t)p->outer * p->inner;  // below 2^62; a dimension more could pass 2^64
    bool fits = one <= MICA_MAX_BYTES && one * p->n <= MICA_MAX_BYTES && one * p->k <= MICA_MAX_BYTES / 4;
    return fits ? MICA_OK : MICA_ERR_SHAPE;
}

uint32_t mica_pick_s8_rows(const mica_pick_s8_t *p) {
    return p->outer * p->k;
}

void mica_pick_s8_ref(const mica_pick_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const size_t inner = p->inner;
    const int32_t n = (int32_t)p->n;
    const uint32_t step = p->step;
    const int32_t *place = p->places + row_begin * (step ? inner : 1);
    int8_t *y = p->y + row_begin * inner;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const int8_t *x = p->x + (size_t)(row / p->k) * p->n * inner;
        for (size_t j = 0; j < inner; ++j) {
            int32_t i = *place;
            place += step;
            i += i < 0 ? n : 0;
            *y++ = x[(size_t)(i < 0 ? 0 : i >= n ? n - 1 : i) * inner + j];
        }
        place += !step;
    }
}

#endif

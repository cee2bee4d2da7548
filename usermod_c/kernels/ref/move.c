// A copy with strides: slices, repetitions, reversals, broadcasts; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#ifndef MICA_WITHOUT_MOVE_S8

mica_status_t mica_move_s8_check(const mica_move_s8_t *p, const char **what) {
    *what = "rank is not 1 to 6";
    if (p->rank == 0 || p->rank > MICA_MAX_RANK) {
        return MICA_ERR_SHAPE;
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < p->rank; ++i) {
        elements *= p->dim[i].n;
        if (elements == 0 || elements > MICA_MAX_BYTES) {
            *what = "a length is 0, or the output too large";
            return MICA_ERR_SHAPE;
        }
    }
    // sum(n - 1) < product(n) < 2^31 and |stride| <= 2^31: the sums below stay inside 2^62.
    int64_t low = p->begin, high = p->begin;
    for (uint32_t i = 0; i < p->rank; ++i) {
        int64_t reach = (int64_t)(p->dim[i].n - 1) * p->dim[i].stride;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    if (low < 0 || high >= p->x_n) {
        *what = "reads outside the input";
        return MICA_ERR_RANGE;
    }
    return MICA_OK;
}

size_t mica_move_s8_y_bytes(const mica_move_s8_t *p) {
    size_t n = 1;
    for (uint32_t i = 0; i < p->rank; ++i) {
        n *= p->dim[i].n;
    }
    return n;
}

uint32_t mica_move_s8_rows(const mica_move_s8_t *p) {
    return p->dim[0].n;
}

void mica_move_s8_ref(const mica_move_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    uint32_t last = p->rank - 1u, inner = p->dim[last].n, inner_stride = (uint32_t)p->dim[last].stride;
    uint32_t row = 1;  // elements of one row of y
    for (uint32_t i = 1; i < p->rank; ++i) {
        row *= p->dim[i].n;
    }
    if (last == 0) {
        inner = row_end - row_begin;
    }
    // `at` is what x is indexed with; unsigned, since stepping over a dimension's end may pass 2^31 for a moment.
    uint32_t index[MICA_MAX_RANK] = { row_begin };
    uint32_t at = (uint32_t)p->begin + row_begin * (uint32_t)p->dim[0].stride;
    int8_t *y = p->y + (size_t)row_begin * row, *y_end = p->y + (size_t)row_end * row;
    while (y != y_end) {
        if (inner_stride == 1) {
            memcpy(y, p->x + at, inner);
        } else if (inner_stride == 0) {
            memset(y, p->x[at], inner);
        } else {
            for (uint32_t i = 0, from = at; i < inner; ++i, from += inner_stride) {
                y[i] = p->x[from];
            }
        }
        y += inner;
        for (uint32_t i = last; i-- > 0;) {
            at += (uint32_t)p->dim[i].stride;
            if (++index[i] < p->dim[i].n) {
                break;
            }
            at -= (uint32_t)p->dim[i].stride * p->dim[i].n;
            index[i] = 0;
        }
    }
}

#endif

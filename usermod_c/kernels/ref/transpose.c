// Permutation of the dimensions; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_TRANSPOSE_S8

mica_status_t mica_transpose_s8_check(const mica_transpose_s8_t *p, const char **what) {
    uint32_t seen = 0;
    uint64_t elements = 1;
    *what = "perm is no permutation of the dimensions";
    if (p->rank > MICA_MAX_RANK) {
        return MICA_ERR_SHAPE;
    }
    for (uint32_t i = 0; i < p->rank; ++i) {
        if (p->perm[i] >= p->rank) {
            return MICA_ERR_SHAPE;
        }
        seen |= 1u << p->perm[i];
        elements *= p->y_dims[i];
        if (elements == 0 || elements > MICA_MAX_BYTES) {
            *what = "a dimension is 0, or the tensor too large";
            return MICA_ERR_SHAPE;
        }
    }
    return seen == (1u << p->rank) - 1 ? MICA_OK : MICA_ERR_SHAPE;
}

size_t mica_transpose_s8_x_bytes(const mica_transpose_s8_t *p) {
    size_t n = 1;
    for (uint32_t i = 0; i < p->rank; ++i) {
        n *= p->y_dims[i];
    }
    return n;
}

uint32_t mica_transpose_s8_rows(const mica_transpose_s8_t *p) {
    return p->rank ? p->y_dims[0] : 1;
}

void mica_transpose_s8_ref(const mica_transpose_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    if (p->rank == 0) {
        *p->y = *p->x;
        return;
    }
    // step[i]: from one element of x to the next along y's dimension i. x's dimension perm[i] is as long as y's dimension i.
    uint32_t x_dims[MICA_MAX_RANK], step[MICA_MAX_RANK], index[MICA_MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < p->rank; ++i) {
        x_dims[p->perm[i]] = p->y_dims[i];
    }
    uint32_t row = 1;  // elements of one row of y
    for (uint32_t i = 0; i < p->rank; ++i) {
        step[i] = 1;
        for (uint32_t d = p->perm[i] + 1u; d < p->rank; ++d) {
            step[i] *= x_dims[d];
        }
        row *= i ? p->y_dims[i] : 1;
    }

    uint32_t last = p->rank - 1u, inner = p->y_dims[last], inner_step = step[last];
    int8_t *y = p->y + (size_t)row_begin * row, *y_end = p->y + (size_t)row_end * row;
    index[0] = row_begin;
    uint32_t at = row_begin * step[0];  // of the element of x under `index`, whose last entry stays 0
    if (last == 0) {
        inner = row_end - row_begin;
    }
    while (y != y_end) {
        for (uint32_t i = 0; i < inner; ++i) {
            *y++ = p->x[at + i * inner_step];
        }
        for (uint32_t i = last; i-- > 0;) {
            at += step[i];
            if (++index[i] < p->y_dims[i]) {
                break;
            }
            at -= step[i] * p->y_dims[i];
            index[i] = 0;
        }
    }
}

#endif

// Padding with a constant, the edge, a reflection or a repetition; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#ifndef MICA_WITHOUT_PAD_S8

mica_status_t mica_pad_s8_check(const mica_pad_s8_t *p, const char **what) {
    *what = "rank is above 6, or the mode unknown";
    if (p->rank > MICA_MAX_RANK || p->mode > MICA_PAD_WRAP) {
        return MICA_ERR_SHAPE;
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < p->rank; ++i) {
        uint32_t n = p->x_dims[i], before = p->begin[i];
        elements *= p->y_dims[i];
        if (n == 0 || elements > MICA_MAX_BYTES) {
            *what = "a dimension is 0, or the output too large";
            return MICA_ERR_SHAPE;
        }
        if (before + n > p->y_dims[i]) {
            *what = "the output is smaller than the input and its padding";
            return MICA_ERR_SHAPE;
        }
        uint32_t behind = p->y_dims[i] - before - n, most = p->mode == MICA_PAD_REFLECT ? n - 1 : n;
        if (p->mode >= MICA_PAD_REFLECT && (before > most || behind > most)) {
            *what = "reflects or repeats more than the input has";
            return MICA_ERR_SHAPE;
        }
    }
    return MICA_OK;
}

static size_t elements_of(const uint16_t *dims, uint32_t n) {
    size_t elements = 1;
    for (uint32_t i = 0; i < n; ++i) {
        elements *= dims[i];
    }
    return elements;
}

// The last dimension that is padded; what lies inside it is copied in one piece. Without any, the first.
static uint32_t last_padded(const mica_pad_s8_t *p) {
    uint32_t i = p->rank ? p->rank - 1u : 0;
    while (i > 0 && p->x_dims[i] == p->y_dims[i]) {
        --i;
    }
    return i;
}

uint32_t mica_pad_s8_rows(const mica_pad_s8_t *p) {
    return (uint32_t)elements_of(p->y_dims, last_padded(p));
}

// Where element i - begin of a dimension of x with n elements comes from; -1: from the constant.
static int32_t source(int32_t i, int32_t n, uint32_t mode) {
    if (i >= 0 && i < n) {
        return i;
    }
    switch (mode) {
        case MICA_PAD_EDGE:
            return i < 0 ? 0 : n - 1;
        case MICA_PAD_REFLECT:
            return i < 0 ? -i : 2 * n - 2 - i;
        case MICA_PAD_WRAP:
            return i < 0 ? i + n : i - n;
        default:
            return -1;
    }
}

void mica_pad_s8_ref(const mica_pad_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    if (p->rank == 0) {
        *p->y = *p->x;
        return;
    }
    uint32_t last = last_padded(p);
    size_t unit = elements_of(p->x_dims + last + 1, p->rank - 1u - last);  // copied in one piece
    int32_t n = p->x_dims[last], before = p->begin[last], wide = p->y_dims[last];
    for (uint32_t row = row_begin; row < row_end; ++row) {
        int8_t *y = p->y + row * unit * (size_t)wide;
        const int8_t *x = p->x;
        size_t stride = unit * (size_t)n;  // of x's dimension i
        uint32_t rest = row;
        for (uint32_t i = last; x != NULL && i-- > 0; rest /= p->y_dims[i]) {
            int32_t at = source((int32_t)(rest % p->y_dims[i]) - p->begin[i], p->x_dims[i], p->mode);
            x = at < 0 ? NULL : x + (size_t)at * stride;
            stride *= p->x_dims[i];
        }
        if (x == NULL) {
            memset(y, p->value, unit * (size_t)wide);
            continue;
        }
        if (p->mode == MICA_PAD_CONSTANT) {
            memset(y, p->value, unit * (size_t)before);
            memset(y + unit * (size_t)(before + n), p->value, unit * (size_t)(wide - before - n));
        } else {
            for (int32_t i = before ? -before : n; i < wide - before; i = i == -1 ? n : i + 1) {
                memcpy(y + unit * (size_t)(i + before), x + unit * (size_t)source(i, n, p->mode), unit);
            }
        }
        memcpy(y + unit * (size_t)before, x, unit * (size_t)n);
    }
}

#endif

// Resizing as weighted sums of neighbours; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_RESIZE_LINEAR_S8

#include "requant.h"
#include "shape.h"

// With sums of |weight| up to 2896 on both axes, an accumulator stays below 128 * 2896^2 + 2^21 < 2^31.
#define ONE 2048
#define MOST 2896

mica_status_t mica_resize_linear_s8_check(const mica_resize_linear_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->in_h || !p->in_w || !p->in_c || !p->out_h || !p->out_w
        || mica_product(p->in_h, p->in_w, p->in_c, 1) > MICA_MAX_BYTES
        || mica_product(p->out_h, p->out_w, p->in_c, 1) > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    if (!p->row_taps || p->row_taps > p->in_h || !p->column_taps || p->column_taps > p->in_w) {
        *what = "no taps, or more than the input has rows or columns";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

// n entries of an axis of `size` elements.
static mica_status_t check_axis(const uint16_t *first, const int16_t *weights, uint32_t n, uint32_t taps, uint32_t size,
    const char **what) {
    if (((uintptr_t)first & 1) || ((uintptr_t)weights & 1)) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    for (uint32_t i = 0; i < n; ++i) {
        int32_t sum = 0, size_of_all = 0;
        for (uint32_t t = 0; t < taps; ++t, ++weights) {
            sum += *weights;
            size_of_all += *weights < 0 ? -*weights : *weights;
        }
        if (first[i] > size - taps) {
            *what = "a tap lies outside the input";
            return MICA_ERR_RANGE;
        }
        if (sum != ONE || size_of_all > MOST) {
            *what = "weights do not sum to 2048, or their absolute values pass 2896";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

mica_status_t mica_resize_linear_s8_check_constants(const mica_resize_linear_s8_t *p, const char **what) {
    mica_status_t status = check_axis(p->rows, p->row_weights, p->out_h, p->row_taps, p->in_h, what);
    return status != MICA_OK ? status
        : check_axis(p->columns, p->column_weights, p->out_w, p->column_taps, p->in_w, what);
}

uint32_t mica_resize_linear_s8_rows(const mica_resize_linear_s8_t *p) {
    return p->out_h;
}

void mica_resize_linear_s8_ref(const mica_resize_linear_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    uint32_t c = p->in_c, row_taps = p->row_taps, column_taps = p->column_taps;
    size_t line = (size_t)p->in_w * c;
    int8_t *y = p->y + (size_t)row_begin * p->out_w * c;
    for (uint32_t i = row_begin; i < row_end; ++i) {
        uint32_t top = p->rows[i] <= p->in_h - row_taps ? p->rows[i] : 0;  // the file may have changed since
        const int16_t *wr = p->row_weights + (size_t)i * row_taps, *wc = p->column_weights;
        for (uint32_t j = 0; j < p->out_w; ++j, wc += column_taps) {
            uint32_t left = p->columns[j] <= p->in_w - column_taps ? p->columns[j] : 0;
            const int8_t *x = p->x + top * line + (size_t)left * c;
            for (uint32_t k = 0; k < c; ++k, ++x) {
                uint32_t acc = 1u << 21;  // unsigned: weights that changed since they were checked may wrap it
                for (uint32_t a = 0; a < row_taps; ++a) {
                    const int8_t *tap = x + a * line;
                    int32_t sum = 0;
                    for (uint32_t b = 0; b < column_taps; ++b, tap += c) {
                        sum += *tap * wc[b];
                    }
                    acc += (uint32_t)sum * (uint32_t)wr[a];
                }
                *y++ = (int8_t)mica_clamp((int32_t)acc >> 22, -128, 127);
            }
        }
    }
}

#endif

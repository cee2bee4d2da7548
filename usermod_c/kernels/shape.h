// mica: what the kernels' checks and window loops share.
#ifndef MICA_SHAPE_H
#define MICA_SHAPE_H

#include "mica_kernels.h"

// Product of four numbers, each at most MICA_MAX_DIM; saturates above MICA_MAX_BYTES.
uint32_t mica_product(uint32_t a, uint32_t b, uint32_t c, uint32_t d);

// Whether a window's numbers agree with each other: every size and address of its x and y then fits an int32.
mica_status_t mica_window_check(const mica_window_t *w, const char **what);
// The same, and that the groups of a convolution fit its channels.
mica_status_t mica_groups_check(const mica_window_t *w, uint32_t groups, const char **what);

static inline bool mica_aligned4(const void *p) {
    return ((uintptr_t)p & 3) == 0;
}

mica_status_t mica_act_check(int8_t act_min, int8_t act_max, const char **what);

// mult and shift of n channels.
mica_status_t mica_requant_check(const int32_t *mult, const int8_t *shift, uint32_t n, const char **what);

// A table of 256 exponentials, for sums of `axis` of them.
mica_status_t mica_exponentials_check(const uint32_t *table, uint32_t axis, const char **what);

// Bytes of a row of k weights. Plain weights are at most MICA_MAX_BYTES, filled rows of them still fit a uint32.
static inline uint32_t mica_row_bytes(uint8_t layout, uint32_t k) {
    if (layout == MICA_LAYOUT_PLAIN) {
        return k;
    }
    k = MICA_CODED(layout) ? (k + 1) / 2 : k;
    return (k + MICA_ROW_ALIGN - 1) & ~(uint32_t)(MICA_ROW_ALIGN - 1);
}

// Bytes of n rows of k weights, and of the table before them.
static inline size_t mica_weights_bytes(uint8_t layout, uint32_t n, uint32_t k) {
    return (MICA_CODED(layout) ? MICA_CODES : 0) + (size_t)n * mica_row_bytes(layout, k);
}

// Weight i of a row in CODES4: of each four the first byte has weights 0 and 2, the second 1 and 3.
static inline int32_t mica_coded(const int8_t *table, const int8_t *row, uint32_t i) {
    const uint8_t *pair = (const uint8_t *)row + i / 4 * 2 + i % 2;
    return table[i & 2 ? *pair >> 4 : *pair & 15];
}

// The constants of n output channels, each a dot product of length k: no accumulator can overflow, and `fast` is true.
mica_status_t mica_channels_check(const mica_channels_t *c, uint32_t n, uint32_t k, const char **what);

// Taps [*first, *end) of a window that begins at `start` lie inside [0, size); first == end where none does.
static inline void mica_taps(int32_t start, int32_t size, int32_t kernel, int32_t dilation, int32_t *first,
    int32_t *end) {
    *first = 0;
    *end = kernel;
    if (start < 0) {
        int32_t skip = (dilation - 1 - start) / dilation;
        *first = skip < kernel ? skip : kernel;
    }
    if (start + (kernel - 1) * dilation >= size) {
        int32_t inside = start >= size ? 0 : (size - start + dilation - 1) / dilation;
        *end = inside > *first ? inside : *first;
    }
}

// acc + sum of x[i] * w[i].
static inline int32_t mica_dot(int32_t acc, const int8_t *x, const int8_t *w, int32_t n) {
    for (const int8_t *end = w + n; w != end; ++w, ++x) {
        acc += *x * *w;
    }
    return acc;
}

static inline int32_t mica_sum(const int8_t *w, int32_t n) {
    int32_t sum = 0;
    for (const int8_t *end = w + n; w != end; ++w) {
        sum += *w;
    }
    return sum;
}

// Whether a window has 3x3 taps, dilation 1 and one stride in both directions, up to `most`.
static inline bool mica_window_is_3x3(const mica_window_t *w, uint32_t most) {
    return w->kernel_h == 3 && w->kernel_w == 3 && w->stride_h == w->stride_w && w->stride_w <= most
        && w->dilation_h == 1 && w->dilation_w == 1;
}

// Whether all taps of all windows lie inside the image.
static inline bool mica_window_is_inside(const mica_window_t *w) {
    return w->pad_top == 0 && w->pad_left == 0
        && (w->out_h - 1) * w->stride_h + (w->kernel_h - 1) * w->dilation_h < w->in_h
        && (w->out_w - 1) * w->stride_w + w->kernel_w <= w->in_w;
}

#endif

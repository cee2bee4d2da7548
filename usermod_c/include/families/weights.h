// mica: kernels with windows or constant weights. How to read it: mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_WEIGHTS_H
#define MICA_FAMILIES_WEIGHTS_H

#include "mica.h"

// A window that slides over an image: x is [1, in_h, in_w, in_c], y is [1, out_h, out_w, out_c].
typedef struct {
    uint16_t in_h, in_w, in_c;
    uint16_t out_h, out_w, out_c;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;      // 1 or more
    uint16_t dilation_h, dilation_w;  // 1 or more
    uint16_t pad_top, pad_left;
} mica_window_t;

// Where structures of parameters begin with their bytes, it is for the Cortex-M0+, which reaches bytes 31 behind a
// pointer in one instruction, words 124. conv2d_s8 does not: its loops take 0.1 % more cycles then.

// Weights, and how an accumulator of output channel o becomes an int8:
// y = clamp(y_zero + requant(acc, mult[o], shift[o]), act_min, act_max); rounding: kernels/requant.h.
typedef struct {
    int8_t y_zero;
    int8_t act_min, act_max;
    uint8_t fast;          // claims what MICA_STEP_FLAG_FAST says; check_constants refuses a false claim
    uint8_t layout;        // MICA_LAYOUT_*: how the rows of weights lie
    const int8_t *weights; // the first row
    const int8_t *table;   // of layout CODES4: MICA_CODES values, whose numbers the rows hold
    const int32_t *bias;   // one for each output channel, -x_zero * sum(w) included
    const int32_t *mult;   // one for each output channel, 0 or more
    const int8_t *shift;   // one for each output channel, -30 to 31, to the right
} mica_channels_t;

// ---- conv2d_s8: y[oy,ox,o] = out(bias[o] + sum over ky,kx,i of
// x[oy*sh - pt + ky*dh, ox*sw - pl + kx*dw, i] * w[o,ky,kx,i])
//   x int8 [1, H, W, Cin]; y int8 [1, OH, OW, Cout]; weights int8 [Cout, KH, KW, Cin / groups], PLAIN, ROWS or CODES4
//   outside the image x reads x_zero; group g reads input channels [g * Cin / groups, ...); rows: OH
typedef struct {
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    mica_window_t win;
    uint16_t groups;
    int8_t x_zero;
} mica_conv2d_s8_t;

size_t mica_conv2d_s8_weights_bytes(const mica_conv2d_s8_t *p);
uint32_t mica_conv2d_s8_channels(const mica_conv2d_s8_t *p);  // elements of bias, mult and shift

// ---- depthwise_conv2d_s8: as conv2d_s8, but output channel o reads input channel o / m only, m = Cout / C
//   x int8 [1, H, W, C]; y int8 [1, OH, OW, C * m]; weights int8 [C * m, KH, KW]; rows: OH
typedef struct {
    int8_t x_zero;
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    mica_window_t win;
} mica_depthwise_conv2d_s8_t;

size_t mica_depthwise_conv2d_s8_weights_bytes(const mica_depthwise_conv2d_s8_t *p);
uint32_t mica_depthwise_conv2d_s8_channels(const mica_depthwise_conv2d_s8_t *p);

// ---- conv_transpose2d_s8: y[oy,ox,o] = out(bias[o] + sum over ky,kx,i of v * w[o,ky,kx,i]), v = x[iy,ix,i] with
//      iy * sh + ky * dh = oy + pt and ix * sw + kx * dw = ox + pl, or x_zero where there is no such iy and ix inside x
//   x int8 [1, H, W, Cin]; y int8 [1, OH, OW, Cout]; weights int8 [Cout, KH, KW, Cin / groups] as conv2d_s8; rows: OH
typedef struct {
    int8_t x_zero;
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    mica_window_t win;
    uint16_t groups;
} mica_conv_transpose2d_s8_t;

size_t mica_conv_transpose2d_s8_weights_bytes(const mica_conv_transpose2d_s8_t *p);
uint32_t mica_conv_transpose2d_s8_channels(const mica_conv_transpose2d_s8_t *p);

// ---- fully_connected_s8 (a GEMM with weights transposed): y[r,n] = out(bias[n] + sum over k of x[r,k] * w[n,k])
//   x int8 [rows, K]; y int8 [rows, N]; weights int8 [N, K], layout PLAIN, OFFSET_ROWS or CODES4; rows: rows
typedef struct {
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    uint32_t rows;
    uint16_t in_k, out_n;
    const struct mica_fetch *fetch;  // not a kernel's: who brings the weights of a single row, or null (mica_set_fetch)
} mica_fully_connected_s8_t;

size_t mica_fully_connected_s8_weights_bytes(const mica_fully_connected_s8_t *p);
uint32_t mica_fully_connected_s8_channels(const mica_fully_connected_s8_t *p);

// ---- max_pool2d_s8: y = clamp(largest x of the window); taps outside the image do not count, no tap gives -128
//   x int8 [1, H, W, C]; y int8 [1, OH, OW, C]; rows: OH
typedef struct {
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    mica_window_t win;
} mica_max_pool2d_s8_t;


// ---- average_pool2d_s8: y = clamp(y_zero + requant(sum of x - x_zero, mult[e], shift[e])), e = n - 1, or 0: one entry
//   x int8 [1, H, W, C]; y int8 [1, OH, OW, C]; n: taps inside the image, and its pads with count_include_pad; rows: OH
typedef struct {
    uint8_t count_include_pad;
    int8_t x_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    const int32_t *mult;    // `entries` of them
    const int8_t *shift;
    mica_window_t win;      // dilation 1
    uint16_t pad_bottom, pad_right;
    uint32_t entries;       // 1 or kernel_h * kernel_w
} mica_average_pool2d_s8_t;


#endif

// mica: kernels of int16. How to read it: mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_WIDE_H
#define MICA_FAMILIES_WIDE_H

#include "weights.h"
#include "elements.h"

// Zero points are 0; int16 buffers lie on multiples of 2.

// conv2d_s16: y = clamp(requant(bias[o] + sum of x * w)), as conv2d_s8, outside the image x reads 0; sums have 64 bits
//   x int16 [1, H, W, Cin]; y int16 [1, OH, OW, Cout]; weights int8 [Cout, KH, KW, Cin / groups]
//   bias, mult, shift: one for each output channel; rows: OH
typedef struct {
    const int16_t *x;
    int16_t *y;
    const int8_t *weights;
    const int32_t *bias, *mult;
    const int8_t *shift;
    mica_window_t win;
    uint16_t groups;
    int16_t act_min, act_max;
} mica_conv2d_s16_t;

uint32_t mica_conv2d_s16_reduction(const mica_conv2d_s16_t *p);  // weights of one output channel

// pool_s16: y = clamp(requant(|sum of x|, mult[e], shift[e]), with the sum's sign), e = n - 1, or 0: one entry;
//   with `largest` y = clamp(largest x)
//   x int16 [1, H, W, C]; y int16 [1, OH, OW, C]; n: taps inside the image, others do not count; rows: OH
typedef struct {
    const int16_t *x;
    int16_t *y;
    const int32_t *mult;  // `entries` of them
    const int8_t *shift;
    mica_window_t win;
    uint32_t entries;     // 1 or kernel_h * kernel_w; with `largest` 0
    int16_t act_min, act_max;
    uint8_t largest;
} mica_pool_s16_t;

// binary_s16: y = clamp((a * mult_a + b * mult_b + a * b * mult_ab + 2^(shift - 1)) >> shift), with numpy broadcasting
//   mica_broadcast_shapes fills shape; rows: elements of y
typedef struct {
    const int16_t *a, *b;
    int16_t *y;
    int32_t mult_a, mult_b, mult_ab;
    mica_broadcast_t shape;
    int16_t act_min, act_max;
    uint8_t shift;  // 1 to 62
} mica_binary_s16_t;

// lut_s16: with u = x + 2^15, d = 16 - bits, t = table + (u >> d): y =
// t[0] + (((t[1] - t[0]) * (u mod 2^d) + 2^(d-1)) >> d)
//   x, y int16 [n]; table int16 [2^bits + 1]; rows: n
#define MICA_LUT_S16_MOST_BITS 12
typedef struct {
    const int16_t *x;
    int16_t *y;
    const int16_t *table;
    uint32_t n;
    uint8_t bits;  // 1 to MICA_LUT_S16_MOST_BITS
} mica_lut_s16_t;

// softmax_s16: e[i] = (table[d >> 8] * table[256 + (d & 255)] + 2^23) >> 24, d = max(x) - x[i];
//   y[i] = min(32767, (2^16 * e[i] / sum(e) + 1) >> 1), row by row
//   x, y int16 [rows, axis]; table uint32 [512], table[0] = 2^24, table[1..256) <= 2^24, table[256] >= 1,
//   axis * table[256..512) <= 2^31; rows: rows
typedef struct {
    const int16_t *x;
    int16_t *y;
    const uint32_t *table;
    uint32_t rows;
    uint16_t axis;
} mica_softmax_s16_t;

// widen_s16: y = clamp(requant(x - x_zero)); narrow_s8: y = clamp(y_zero + requant(x)); elements: n, rows: n
typedef struct {
    const int8_t *x;
    int16_t *y;
    int32_t mult;
    uint32_t n;
    int16_t act_min, act_max;
    int8_t shift;
    int8_t x_zero;
} mica_widen_s16_t;

typedef struct {
    const int16_t *x;
    int8_t *y;
    int32_t mult;
    uint32_t n;
    int8_t act_min, act_max;
    int8_t shift;
    int8_t y_zero;
} mica_narrow_s8_t;

#endif

// mica: kernels of single elements, with numpy broadcasting, and the product of two tensors. How to read it:
// mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_ELEMENTS_H
#define MICA_FAMILIES_ELEMENTS_H

#include "mica.h"

// numpy broadcasting of two inputs to y, for add, mul, minmax, div, and the batches of matmul.
typedef struct {
    uint8_t a_moves, b_moves;   // bit i: the input has dimension i; otherwise it repeats along it
    uint8_t rank;               // 1 or more
    uint32_t n[MICA_MAX_RANK];  // y's dimensions, neighbours that broadcast alike merged, outermost first; n[0..rank)
} mica_broadcast_t;

// Fills p from the shapes; comes before the kernel's check.
mica_status_t mica_broadcast_shapes(mica_broadcast_t *p, const uint32_t *a_dims, uint32_t a_rank,
    const uint32_t *b_dims, uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what);
mica_status_t mica_broadcast_check(const mica_broadcast_t *p, const char **what);
// Elements of the inputs and of y: their bytes, where they are int8.
uint32_t mica_broadcast_a_size(const mica_broadcast_t *p);
uint32_t mica_broadcast_b_size(const mica_broadcast_t *p);
uint32_t mica_broadcast_y_size(const mica_broadcast_t *p);

// ---- add_s8: y = clamp(y_zero + ((a * mult_a + b * mult_b + offset) >> shift)), with numpy broadcasting
//   mica_broadcast_shapes fills shape; rows: elements of y
typedef struct {
    uint8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *a, *b;
    int8_t *y;
    int32_t mult_a, mult_b, offset;
    mica_broadcast_t shape;
} mica_add_s8_t;

// ---- lut_s8: y[i] = table[x[i] + 128]
//   x, y int8 [n]; table int8 [256]; rows: n
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int8_t *table;
    uint32_t n;
} mica_lut_s8_t;

// ---- mul_s8: y = clamp(y_zero + requant((a - a_zero) * (b - b_zero), mult, shift)), with numpy broadcasting
//   mica_broadcast_shapes fills shape; rows: elements of y
typedef struct {
    int8_t shift;
    int8_t a_zero, b_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *a, *b;
    int8_t *y;
    mica_broadcast_t shape;
    int32_t mult;
} mica_mul_s8_t;

// ---- minmax_s8: y = clamp(y_zero + (the smaller or larger of a * mult_a + offset_a, b * mult_b + offset_b >> shift))
//   mica_broadcast_shapes fills shape; rows: elements of y
typedef struct {
    uint8_t shift;
    uint8_t larger;  // 0 the smaller, 1 the larger
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *a, *b;
    int8_t *y;
    mica_broadcast_t shape;
    int32_t mult_a, offset_a, mult_b, offset_b;
} mica_minmax_s8_t;

// ---- matmul_s8: y[m,n] = clamp(y_zero + requant(sum over k of (a[m,k] - a_zero) * (b[k,n] - b_zero), mult, shift))
//   a int8 [batch, M, K]; b int8 [batch, K, N], or [batch, N, K] with transpose_b; y int8 [batch, M, N]; broadcast
//   mica_matmul_s8_shapes, which looks at transpose_b, fills batch, m, k, n; K <= 33025; rows: batch * M
typedef struct {
    int8_t shift;
    uint8_t transpose_b;
    int8_t a_zero, b_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *a, *b;
    int8_t *y;
    mica_broadcast_t batch;
    int32_t mult;
    uint16_t m, k, n;
} mica_matmul_s8_t;

mica_status_t mica_matmul_s8_shapes(mica_matmul_s8_t *p, const uint32_t *a_dims, uint32_t a_rank,
    const uint32_t *b_dims, uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what);

// ---- div_s8: y = clamp(y_zero + (a - a_zero) * factor / ((b - b_zero) * 2^shift)), with numpy broadcasting
//   rounded once, halves away from 0; where b is b_zero, y_zero or the bound on the side of a's sign
//   mica_broadcast_shapes fills shape; factor <= 2^21, shift <= 22; rows: elements of y
typedef struct {
    uint8_t shift;
    int8_t a_zero, b_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *a, *b;
    int8_t *y;
    mica_broadcast_t shape;
    uint32_t factor;
} mica_div_s8_t;

#endif

// mica: kernels that look at whole rows or axes. How to read it: mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_ROWS_H
#define MICA_FAMILIES_ROWS_H

#include "mica.h"

// ---- softmax_s8: e[i] = table[max(x) - x[i]]; y[i] = min(127, (n[i] + sum(e) / 2) / sum(e) + y_zero), row by row
//   x, y int8 [rows, axis]; table uint32 [256], table[0] >= 1, table <= 2^23, axis * max(table) <= 2^31; rows: rows
//   n[i] = 256 * e[i]; with `wide` the table has 512 entries and n[i] = table[256 + max(x) - x[i]], at most 2^31
typedef struct {
    const int8_t *x;  // in this order: armv7em/softmax.S reads them
    int8_t *y;
    const uint32_t *table;
    uint32_t rows;
    uint16_t axis;
    uint8_t wide;  // 0 or 1
    int8_t y_zero;
} mica_softmax_s8_t;

static inline uint32_t mica_softmax_s8_rows(const mica_softmax_s8_t *p) {
    return p->rows;  // here, because calling it would be a seventh of what two classes cost
}

// ---- reduce_s8: one number of the n numbers along an axis; d = x - x_zero
//   SUM requant(sum d); ABSOLUTE requant(sum |d|); SQUARES requant(sum d^2); ROOT requant(2^15 * sqrt(sum d^2));
//   LOG requant(2^16 * log2(sum d) + bias), act_min where the sum is 0 or less; MAX, MIN the extreme x itself
//   x int8 [outer, n, inner]; y int8 [outer, inner]; n <= 2^23, with squares 33025; rows: outer * inner
enum {
    MICA_REDUCE_SUM, MICA_REDUCE_MAX, MICA_REDUCE_MIN, MICA_REDUCE_SQUARES, MICA_REDUCE_ABSOLUTE, MICA_REDUCE_ROOT,
    MICA_REDUCE_LOG
};
typedef struct {
    int8_t shift;
    uint8_t mode;  // MICA_REDUCE_*
    int8_t x_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    uint32_t outer, n, inner;
    int32_t mult, bias;
} mica_reduce_s8_t;

// ---- argmax_s8: where the largest (smallest) of the n numbers along an axis is, the first or last of equal ones
//   x int8 [outer, n, inner]; y int32 [outer, inner]; rows: outer * inner
typedef struct {
    uint8_t minimum, select_last;
    const int8_t *x;
    int32_t *y;
    uint32_t outer, n, inner;
} mica_argmax_s8_t;

size_t mica_argmax_s8_y_bytes(const mica_argmax_s8_t *p);

// ---- top_k_s8: places of the k largest (smallest) of n numbers along an axis, best first, of equal ones the first
//   x int8 [outer, n, inner]; y int32 [outer, k, inner], k <= n; rows: outer
typedef struct {
    uint8_t smallest;
    const int8_t *x;
    int32_t *y;
    uint32_t outer, n, inner, k;
} mica_top_k_s8_t;

// ---- pick_s8: y[o,j,i] = x[o,place,i], place = places[o,j,i], plus n where negative, then clamped to [0, n)
//   x int8 [outer, n, inner]; places int32 [outer, k, inner], [outer, k] with step 0; y int8 [outer, k, inner]
//   rows: outer * k
typedef struct {
    const int8_t *x;
    const int32_t *places;
    int8_t *y;
    uint32_t outer, n, inner, k, step;
} mica_pick_s8_t;

// ---- layer_norm_s8: y = clamp(y_zero + ((normal(x) * gamma[c] + beta[c] + 2^(shift-1)) >> shift)), row by row
//   DEVIATION normal = (x - mean) / sqrt(variance + epsilon / (2^14 n^2)); with d = x - x_zero,
//   SQUARES d / sqrt(sum d^2 + epsilon / 2^14); ABSOLUTE d / sqrt((sum |d|)^2 + epsilon / 2^14)
//   x, y int8 [rows, n], n = parts * inner; element i of row r has c = (r * parts + i / inner) % channels; parts
//   divides channels, or with inner 1 channels divides n
//   gamma, beta int32 [channels], (sqrt(n) + 2) * |gamma| + |beta| < 2^31; rows: rows
enum { MICA_NORM_DEVIATION, MICA_NORM_SQUARES, MICA_NORM_ABSOLUTE };
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int32_t *gamma, *beta;
    uint64_t epsilon;  // below 2^62
    uint32_t rows;
    uint16_t n, inner, channels;
    uint8_t mode;      // MICA_NORM_*
    uint8_t shift;
    int8_t x_zero, y_zero;
    int8_t act_min, act_max;
} mica_layer_norm_s8_t;

// ---- norm_s8: the same of modes DEVIATION and SQUARES in 32 bits, y = clamp((t * gamma[i] + offset[i] >> 20) - 128);
//   t = x normalised, an int16: SPEC.md, kernel 57
//   x, y int8 [rows, n]; terms int32 [n] gamma, or with `each` [n, 2] gamma and offset; gamma is an int16,
//   |offset| < 2^30; rows: rows; y may be x.
typedef struct {
    uint8_t mode;  // MICA_NORM_*
    uint8_t each;
    uint8_t fraction;  // of the spread, in bits
    int8_t x_zero;
    int8_t act_min, act_max;
    uint16_t n;
    uint16_t factor;
    int32_t up;
    uint32_t epsilon;
    int32_t offset;  // of all, without `each`
    const int32_t *terms;
    const int8_t *x;
    int8_t *y;
    uint32_t rows;
} mica_norm_s8_t;

// ---- log_softmax_s8: y[i] = clamp(y_zero + (((x[i] - max(x)) * mult + ((log * mult_log) >> 16) + offset) >> shift)),
//   log = 2^16 * log2(sum over i of table[max(x) - x[i]]); with `sum`, max(x) itself in the place of x[i] - max(x)
//   x int8 [rows, axis]; y int8 [rows, axis], with `sum` [rows]; table as for softmax_s8; rows: rows
typedef struct {
    uint8_t shift;
    uint8_t sum;  // 1: the logarithm of the sum of the exponentials, one number a row
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    const uint32_t *table;
    uint32_t rows;
    int32_t mult, mult_log, offset;
    uint16_t axis;
} mica_log_softmax_s8_t;

size_t mica_log_softmax_s8_y_bytes(const mica_log_softmax_s8_t *p);

#endif

// mica: kernels that move elements, and resizing. How to read it: mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_MOVEMENT_H
#define MICA_FAMILIES_MOVEMENT_H

#include "mica.h"

// ---- transpose_s8: dimension i of y is dimension perm[i] of x
//   rows: y's outermost dimension
typedef struct {
    uint8_t perm[MICA_MAX_RANK];
    uint8_t rank;                    // 0 is one element
    const int8_t *x;
    int8_t *y;
    uint16_t y_dims[MICA_MAX_RANK];  // y_dims[0..rank)
} mica_transpose_s8_t;


// ---- move_s8: a copy with strides, y[i] = x[begin + sum over j of i[j] * dim[j].stride]
//   x int8 [x_n]; y int8 of shape dim[].n; every element it reads is inside x; rows: dim[0].n
typedef struct {
    const int8_t *x;
    int8_t *y;
    struct {
        uint32_t n;
        int32_t stride;  // in elements of x; may be 0 or negative
    } dim[MICA_MAX_RANK];  // dim[0..rank), outermost first
    uint32_t x_n;
    int32_t begin;
    uint8_t rank;          // 1 or more
} mica_move_s8_t;

size_t mica_move_s8_y_bytes(const mica_move_s8_t *p);

// ---- concat_s8: row by row, part[0] bytes of x[0], part[1] of x[1], ...
//   x[k] int8 [rows, part[k]]; y int8 [rows, sum of part]; rows: rows
typedef struct {
    uint8_t n;                       // 1 to MICA_MAX_INPUTS
    const int8_t *x[MICA_MAX_INPUTS];
    int8_t *y;
    uint32_t part[MICA_MAX_INPUTS];  // part[0..n)
    uint32_t rows;
} mica_concat_s8_t;

// ---- pad_s8: x with begin[i] elements before it along dimension i, and some behind it
//   x int8 [x_dims]; y int8 [y_dims]; modes 2, 3 pad with at most what x has; rows: product of dimensions before the
//   last padded one
enum { MICA_PAD_CONSTANT, MICA_PAD_EDGE, MICA_PAD_REFLECT, MICA_PAD_WRAP };
typedef struct {
    uint8_t rank;  // 0 is one element
    uint8_t mode;  // MICA_PAD_*
    int8_t value;  // of MICA_PAD_CONSTANT
    const int8_t *x;
    int8_t *y;
    uint16_t x_dims[MICA_MAX_RANK], y_dims[MICA_MAX_RANK], begin[MICA_MAX_RANK];
} mica_pad_s8_t;

// ---- gather_s8: y[r,j] = x[r,indices[j]]
//   x int8 [rows, x_n, inner]; y int8 [rows, y_n, inner]; indices int32 [y_n], each in [0, x_n); rows: rows
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int32_t *indices;
    uint32_t rows, inner;
    uint16_t x_n, y_n;
} mica_gather_s8_t;

// ---- scatter_s8: y = x, but y[r,(i + j) mod x_n] = rows_of[r,j] for j < r_n, i = index[r / per_index]
//   x int8 [rows, x_n, inner]; y the same, and may be the same bytes; rows_of int8 [rows, r_n, inner], r_n < x_n
//   index int32 [rows / per_index]: circular: mod x_n; else clamped to [0, x_n - r_n]; rows: rows
typedef struct {
    bool circular;
    const int8_t *x, *rows_of;
    const int32_t *index;
    int8_t *y;
    uint32_t rows, per_index, inner;
    uint16_t x_n, r_n;
} mica_scatter_s8_t;

// ---- resize_linear_s8: y[i,j,c] = clamp((2^21 + sum over a, b of row_weights[i,a] * column_weights[j,b]
//                                          * x[rows[i] + a, columns[j] + b, c]) >> 22)
//   x int8 [1, H, W, C]; y int8 [1, OH, OW, C]; rows [OH], row_weights [OH, row_taps], and likewise columns of W and OW
//   the weights of an entry sum to 2048, their absolute values to 2896 at most; all taps are inside x; rows: OH
typedef struct {
    uint8_t row_taps, column_taps;
    const int8_t *x;
    int8_t *y;
    const uint16_t *rows, *columns;
    const int16_t *row_weights, *column_weights;
    uint16_t in_h, in_w, in_c, out_h, out_w;
} mica_resize_linear_s8_t;

// ---- embedding_s8: y[r] = table[i], i = x[r], plus vocabulary where negative, then clamped to [0, vocabulary)
//   x int32 [rows]; y int8 [rows, width]; table int8 [vocabulary, width]; rows: rows
typedef struct {
    const int32_t *x;
    int8_t *y;
    const int8_t *table;
    uint32_t rows, vocabulary;
    uint16_t width;
} mica_embedding_s8_t;

size_t mica_embedding_s8_table_bytes(const mica_embedding_s8_t *p);

#endif

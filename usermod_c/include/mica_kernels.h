// mica: the kernels, one at a time. What a kernel computes stands in format/SPEC.md; how it is called stands here.
//
// Every kernel NAME (conv2d_s8, ...) has
//   mica_NAME_t                  its parameters: addresses, shapes, constants
//   mica_NAME_check(p, what)     MICA_OK, or MICA_ERR_SHAPE / MICA_ERR_RANGE when shapes and numbers disagree. Looks at no
//                                buffer, so it comes before the addresses are known. *what then says what was wrong:
//                                read it after the call, not in the same argument list, which C evaluates in any order.
//   mica_NAME_x_bytes(p), ...    length of each buffer, once check has passed; all fit an int32
//   mica_NAME_check_constants(p, what)   looks at the values of the constants (only kernels that have some)
//   mica_NAME_rows(p)            into how many rows the output can be cut
//   mica_NAME_ref(p, row_begin, row_end, scratch, scratch_bytes)   the kernel: computes the rows [row_begin, row_end)
// Call them in this order. After both checks the kernel reads and writes inside its buffers and overflows nowhere,
// whatever x holds. MICA_NAME (in mica_select.h, chosen by the build's include path) is the fastest variant there is.
// Kernels allocate nothing, keep nothing, and may run at the same time on different rows. Rows of one call are disjoint
// from those of another unless p runs in place (`in_place` in a kernel's row of host_tools/mica/kernels says which may: y is
// exactly an input; elsewhere y overlaps none).
//
// int8 buffers may lie at any address, int32 and uint32 buffers on multiples of 4. -DMICA_WITHOUT_NAME (upper case, for
// example MICA_WITHOUT_CONV2D_S8) leaves a kernel out of the build.
#ifndef MICA_KERNELS_H
#define MICA_KERNELS_H

#include "mica.h"

// The arguments that every kernel takes behind its parameters. Scratch is 4-byte aligned; null and 0 where there is none.
#define MICA_KERNEL_ARGS uint32_t row_begin, uint32_t row_end, void *scratch, size_t scratch_bytes

// A window that slides over an image: x is [1, in_h, in_w, in_c], y is [1, out_h, out_w, out_c].
typedef struct {
    uint16_t in_h, in_w, in_c;
    uint16_t out_h, out_w, out_c;
    uint16_t kernel_h, kernel_w;
    uint16_t stride_h, stride_w;      // 1 or more
    uint16_t dilation_h, dilation_w;  // 1 or more
    uint16_t pad_top, pad_left;
} mica_window_t;

// Where structures of parameters begin with their bytes, it is for the Cortex-M0+, which reaches bytes 31 behind a pointer in one
// instruction, words 124. conv2d_s8 does not: its loops take 0.1 % more cycles then.

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

// ---- conv2d_s8: y[oy,ox,o] = out(bias[o] + sum over ky,kx,i of x[oy*sh - pt + ky*dh, ox*sw - pl + kx*dw, i] * w[o,ky,kx,i])
//   x int8 [1, H, W, Cin]; y int8 [1, OH, OW, Cout]; weights int8 [Cout, KH, KW, Cin / groups], layout PLAIN, ROWS or CODES4
//   outside the image x reads x_zero; group g reads input channels [g * Cin / groups, ...); rows: OH
typedef struct {
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    mica_window_t win;
    uint16_t groups;
    int8_t x_zero;
} mica_conv2d_s8_t;

size_t mica_conv2d_s8_x_bytes(const mica_conv2d_s8_t *p);
size_t mica_conv2d_s8_y_bytes(const mica_conv2d_s8_t *p);
size_t mica_conv2d_s8_weights_bytes(const mica_conv2d_s8_t *p);
uint32_t mica_conv2d_s8_channels(const mica_conv2d_s8_t *p);  // elements of bias, mult and shift
mica_status_t mica_conv2d_s8_check_constants(const mica_conv2d_s8_t *p, const char **what);

// ---- depthwise_conv2d_s8: as conv2d_s8, but output channel o reads input channel o / m only, m = Cout / C
//   x int8 [1, H, W, C]; y int8 [1, OH, OW, C * m]; weights int8 [C * m, KH, KW]; rows: OH
typedef struct {
    int8_t x_zero;
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    mica_window_t win;
} mica_depthwise_conv2d_s8_t;

size_t mica_depthwise_conv2d_s8_x_bytes(const mica_depthwise_conv2d_s8_t *p);
size_t mica_depthwise_conv2d_s8_y_bytes(const mica_depthwise_conv2d_s8_t *p);
size_t mica_depthwise_conv2d_s8_weights_bytes(const mica_depthwise_conv2d_s8_t *p);
uint32_t mica_depthwise_conv2d_s8_channels(const mica_depthwise_conv2d_s8_t *p);
mica_status_t mica_depthwise_conv2d_s8_check_constants(const mica_depthwise_conv2d_s8_t *p, const char **what);

// ---- conv_transpose2d_s8: y[oy,ox,o] = out(bias[o] + sum over all ky,kx,i of v * w[o,ky,kx,i]), where v = x[iy,ix,i] with
//      iy * sh + ky * dh = oy + pt and ix * sw + kx * dw = ox + pl, or x_zero where there is no such iy and ix inside x
//   x int8 [1, H, W, Cin]; y int8 [1, OH, OW, Cout]; weights int8 [Cout, KH, KW, Cin / groups]; groups as conv2d_s8; rows: OH
typedef struct {
    int8_t x_zero;
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    mica_window_t win;
    uint16_t groups;
} mica_conv_transpose2d_s8_t;

size_t mica_conv_transpose2d_s8_x_bytes(const mica_conv_transpose2d_s8_t *p);
size_t mica_conv_transpose2d_s8_y_bytes(const mica_conv_transpose2d_s8_t *p);
size_t mica_conv_transpose2d_s8_weights_bytes(const mica_conv_transpose2d_s8_t *p);
uint32_t mica_conv_transpose2d_s8_channels(const mica_conv_transpose2d_s8_t *p);
mica_status_t mica_conv_transpose2d_s8_check_constants(const mica_conv_transpose2d_s8_t *p, const char **what);

// ---- fully_connected_s8 (a GEMM with weights transposed): y[r,n] = out(bias[n] + sum over k of x[r,k] * w[n,k])
//   x int8 [rows, K]; y int8 [rows, N]; weights int8 [N, K], layout PLAIN, OFFSET_ROWS or CODES4; rows: rows
typedef struct {
    const int8_t *x;
    int8_t *y;
    mica_channels_t ch;
    uint32_t rows;
    uint16_t in_k, out_n;
} mica_fully_connected_s8_t;

size_t mica_fully_connected_s8_x_bytes(const mica_fully_connected_s8_t *p);
size_t mica_fully_connected_s8_y_bytes(const mica_fully_connected_s8_t *p);
size_t mica_fully_connected_s8_weights_bytes(const mica_fully_connected_s8_t *p);
uint32_t mica_fully_connected_s8_channels(const mica_fully_connected_s8_t *p);
mica_status_t mica_fully_connected_s8_check_constants(const mica_fully_connected_s8_t *p, const char **what);

// ---- max_pool2d_s8: y = clamp(largest x of the window); taps outside the image do not count, a window of none gives -128
//   x int8 [1, H, W, C]; y int8 [1, OH, OW, C]; rows: OH
typedef struct {
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    mica_window_t win;
} mica_max_pool2d_s8_t;

size_t mica_max_pool2d_s8_x_bytes(const mica_max_pool2d_s8_t *p);
size_t mica_max_pool2d_s8_y_bytes(const mica_max_pool2d_s8_t *p);

// ---- average_pool2d_s8: y = clamp(y_zero + requant(sum of (x - x_zero), mult[e], shift[e])), e = n - 1, or 0 with one entry
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

size_t mica_average_pool2d_s8_x_bytes(const mica_average_pool2d_s8_t *p);
size_t mica_average_pool2d_s8_y_bytes(const mica_average_pool2d_s8_t *p);
mica_status_t mica_average_pool2d_s8_check_constants(const mica_average_pool2d_s8_t *p, const char **what);

// numpy broadcasting of two inputs to y, for add, mul, minmax, div, and the batches of matmul.
typedef struct {
    uint8_t a_moves, b_moves;   // bit i: the input has dimension i; otherwise it repeats along it
    uint8_t rank;               // 1 or more
    uint32_t n[MICA_MAX_RANK];  // y's dimensions, neighbours that broadcast alike merged, outermost first; n[0..rank)
} mica_broadcast_t;

// Fills p from the shapes; comes before the kernel's check.
mica_status_t mica_broadcast_shapes(mica_broadcast_t *p, const uint32_t *a_dims, uint32_t a_rank, const uint32_t *b_dims,
    uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what);
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

size_t mica_softmax_s8_x_bytes(const mica_softmax_s8_t *p);  // and of y
mica_status_t mica_softmax_s8_check_constants(const mica_softmax_s8_t *p, const char **what);
static inline uint32_t mica_softmax_s8_rows(const mica_softmax_s8_t *p) {
    return p->rows;  // here, because calling it would be a seventh of what two classes cost
}

// ---- lut_s8: y[i] = table[x[i] + 128]
//   x, y int8 [n]; table int8 [256]; rows: n
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int8_t *table;
    uint32_t n;
} mica_lut_s8_t;

// ---- transpose_s8: dimension i of y is dimension perm[i] of x
//   rows: y's outermost dimension
typedef struct {
    uint8_t perm[MICA_MAX_RANK];
    uint8_t rank;                    // 0 is one element
    const int8_t *x;
    int8_t *y;
    uint16_t y_dims[MICA_MAX_RANK];  // y_dims[0..rank)
} mica_transpose_s8_t;

size_t mica_transpose_s8_x_bytes(const mica_transpose_s8_t *p);  // and of y

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

size_t mica_concat_s8_y_bytes(const mica_concat_s8_t *p);

// ---- pad_s8: x with begin[i] elements before it along dimension i, and some behind it
//   x int8 [x_dims]; y int8 [y_dims]; modes 2 and 3 pad with no more than x has; rows: product of the dimensions before the
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

size_t mica_pad_s8_x_bytes(const mica_pad_s8_t *p);
size_t mica_pad_s8_y_bytes(const mica_pad_s8_t *p);

// ---- gather_s8: y[r,j] = x[r,indices[j]]
//   x int8 [rows, x_n, inner]; y int8 [rows, y_n, inner]; indices int32 [y_n], each in [0, x_n); rows: rows
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int32_t *indices;
    uint32_t rows, inner;
    uint16_t x_n, y_n;
} mica_gather_s8_t;

size_t mica_gather_s8_x_bytes(const mica_gather_s8_t *p);
size_t mica_gather_s8_y_bytes(const mica_gather_s8_t *p);
mica_status_t mica_gather_s8_check_constants(const mica_gather_s8_t *p, const char **what);

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

size_t mica_scatter_s8_y_bytes(const mica_scatter_s8_t *p);

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

size_t mica_resize_linear_s8_x_bytes(const mica_resize_linear_s8_t *p);
size_t mica_resize_linear_s8_y_bytes(const mica_resize_linear_s8_t *p);
mica_status_t mica_resize_linear_s8_check_constants(const mica_resize_linear_s8_t *p, const char **what);

// ---- embedding_s8: y[r] = table[i], i = x[r], plus vocabulary where negative, then clamped to [0, vocabulary)
//   x int32 [rows]; y int8 [rows, width]; table int8 [vocabulary, width]; rows: rows
typedef struct {
    const int32_t *x;
    int8_t *y;
    const int8_t *table;
    uint32_t rows, vocabulary;
    uint16_t width;
} mica_embedding_s8_t;

size_t mica_embedding_s8_x_bytes(const mica_embedding_s8_t *p);
size_t mica_embedding_s8_y_bytes(const mica_embedding_s8_t *p);
size_t mica_embedding_s8_table_bytes(const mica_embedding_s8_t *p);

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

// ---- minmax_s8: y = clamp(y_zero + (the smaller, or larger, of a * mult_a + offset_a and b * mult_b + offset_b >> shift))
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
//   a int8 [batch, M, K]; b int8 [batch, K, N], or [batch, N, K] with transpose_b; y int8 [batch, M, N]; batches broadcast
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

mica_status_t mica_matmul_s8_shapes(mica_matmul_s8_t *p, const uint32_t *a_dims, uint32_t a_rank, const uint32_t *b_dims,
    uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what);
size_t mica_matmul_s8_a_bytes(const mica_matmul_s8_t *p);
size_t mica_matmul_s8_b_bytes(const mica_matmul_s8_t *p);
size_t mica_matmul_s8_y_bytes(const mica_matmul_s8_t *p);

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

size_t mica_reduce_s8_x_bytes(const mica_reduce_s8_t *p);

// ---- argmax_s8: where the largest (smallest) of the n numbers along an axis is, the first or last of equal ones
//   x int8 [outer, n, inner]; y int32 [outer, inner]; rows: outer * inner
typedef struct {
    uint8_t minimum, select_last;
    const int8_t *x;
    int32_t *y;
    uint32_t outer, n, inner;
} mica_argmax_s8_t;

size_t mica_argmax_s8_x_bytes(const mica_argmax_s8_t *p);
size_t mica_argmax_s8_y_bytes(const mica_argmax_s8_t *p);

// ---- top_k_s8: where the k largest (smallest) of the n numbers along an axis are, the best first, of equal ones the first
//   x int8 [outer, n, inner]; y int32 [outer, k, inner], k <= n; rows: outer
typedef struct {
    uint8_t smallest;
    const int8_t *x;
    int32_t *y;
    uint32_t outer, n, inner, k;
} mica_top_k_s8_t;

size_t mica_top_k_s8_x_bytes(const mica_top_k_s8_t *p);
size_t mica_top_k_s8_y_bytes(const mica_top_k_s8_t *p);

// ---- pick_s8: y[o,j,i] = x[o,place,i], place = places[o,j,i], plus n where negative, then clamped to [0, n)
//   x int8 [outer, n, inner]; places int32 [outer, k, inner]; y int8 [outer, k, inner]; rows: outer * k
typedef struct {
    const int8_t *x;
    const int32_t *places;
    int8_t *y;
    uint32_t outer, n, inner, k;
} mica_pick_s8_t;

size_t mica_pick_s8_x_bytes(const mica_pick_s8_t *p);
size_t mica_pick_s8_y_bytes(const mica_pick_s8_t *p);

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

// ---- layer_norm_s8: y = clamp(y_zero + ((normal(x) * gamma[c] + beta[c] + 2^(shift-1)) >> shift)), row by row
//   DEVIATION normal = (x - mean) / sqrt(variance + epsilon / (2^14 n^2)); with d = x - x_zero,
//   SQUARES d / sqrt(sum d^2 + epsilon / 2^14); ABSOLUTE d / sqrt((sum |d|)^2 + epsilon / 2^14)
//   x, y int8 [rows, n], n = parts * inner; element i of row r has c = (r * parts + i / inner) % channels
//   gamma, beta int32 [channels], (sqrt(n) + 2) * |gamma| + |beta| < 2^31; rows: rows
enum { MICA_NORM_DEVIATION, MICA_NORM_SQUARES, MICA_NORM_ABSOLUTE };
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int32_t *gamma, *beta;
    uint64_t epsilon;  // below 2^62
    uint32_t rows;
    uint16_t n, inner, channels;
    uint16_t gamma_most, beta_most;  // all |gamma| and |beta| are below 2^16 of these, of beta 0 where all are; gamma_most 0: not known
    uint8_t mode;      // MICA_NORM_*
    uint8_t shift;
    int8_t x_zero, y_zero;
    int8_t act_min, act_max;
} mica_layer_norm_s8_t;

size_t mica_layer_norm_s8_x_bytes(const mica_layer_norm_s8_t *p);  // and of y
mica_status_t mica_layer_norm_s8_check_constants(const mica_layer_norm_s8_t *p, const char **what);
void mica_layer_norm_s8_measure(mica_layer_norm_s8_t *p);  // of checked constants: sets gamma_most and beta_most

// ---- norm_s8: the same of modes DEVIATION and SQUARES in 32 bits, y = clamp(((t * gamma[i] + offset[i]) >> 20) - 128), row by row;
//   t = x normalised, an int16: SPEC.md, kernel 57
//   x, y int8 [rows, n]; terms int32 [n] gamma, or with `each` [n, 2] gamma and offset; gamma is an int16, |offset| < 2^30; rows: rows
//   y may be x. isa/armv6m/norm32.S reads this structure.
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

size_t mica_norm_s8_x_bytes(const mica_norm_s8_t *p);  // and of y
mica_status_t mica_norm_s8_check_constants(const mica_norm_s8_t *p, const char **what);

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

size_t mica_log_softmax_s8_x_bytes(const mica_log_softmax_s8_t *p);
size_t mica_log_softmax_s8_y_bytes(const mica_log_softmax_s8_t *p);
mica_status_t mica_log_softmax_s8_check_constants(const mica_log_softmax_s8_t *p, const char **what);

// ---- recurrent_s8: simple recurrent network, LSTM or GRU over a sequence; formulas: SPEC.md
//   x int8 [time, batch, in_n]; h0, c0 int8 [batch, units]; y int8 [time, batch, units] with every, else [batch, units]
//   weights int8 [G * units, in_n + units], G gates; terms int32 [4, G * units], then with peepholes [3, units]
//   shifts int8 [G * units]; tables int16 [257], a GRU needs no output table, a simple network no gate table either
//   scratch: mica_scratch_min, aligned to 2; rows: 1
#define MICA_TABLE_S16 257
enum { MICA_CELL_RNN, MICA_CELL_LSTM, MICA_CELL_GRU, MICA_CELL_GRU_RESET_AFTER };
typedef struct {
    int8_t in_shift, out_shift;
    int8_t h_zero, c0_zero, y_zero;
    uint8_t cell;         // MICA_CELL_*
    uint8_t initial;      // how many initial states: 0; 1: h0; 2: h0 and c0
    uint8_t cell_shift;   // of the cell state in front of its table, 0 to 15
    uint8_t output_shift; // of what the output table gives, 0 to 13
    uint8_t reverse;      // from the last time step to the first
    uint8_t every;        // y is every hidden state, not the last one
    uint8_t cell_result;  // y is the last cell state
    uint8_t coupled;      // the forget gate is 1 - the input gate
    uint8_t peepholes;
    uint16_t time, batch, in_n, units;
    const int8_t *x;
    const int8_t *h0, *c0;   // initial states; initial says which of them there are
    int8_t *y;
    const int8_t *weights;
    const int32_t *terms;
    const int8_t *shifts;
    const int16_t *gate, *candidate, *output;  // tables
    int32_t in_mult, out_mult;  // c0 to the cell state, and back to y
} mica_recurrent_s8_t;

size_t mica_recurrent_s8_x_bytes(const mica_recurrent_s8_t *p);
size_t mica_recurrent_s8_state_bytes(const mica_recurrent_s8_t *p);  // of h0 and of c0
size_t mica_recurrent_s8_y_bytes(const mica_recurrent_s8_t *p);
size_t mica_recurrent_s8_weights_bytes(const mica_recurrent_s8_t *p);
uint32_t mica_recurrent_s8_terms(const mica_recurrent_s8_t *p);      // elements
uint32_t mica_recurrent_s8_channels(const mica_recurrent_s8_t *p);   // elements of shifts
mica_status_t mica_recurrent_s8_check_constants(const mica_recurrent_s8_t *p, const char **what);

// ---- features_s8: y[r,f] = clamp((v + offset[f] + 2^7) >> 8), v = x[r,f] * scale[f] * 2^exponent[f] rounded, within +-2^40
//   x float32 [rows, n] as bit patterns; y int8 [rows, n]; a NaN gives clamp(missing[f]); rows: rows
typedef struct {
    int8_t act_min, act_max;
    const int32_t *x;
    int8_t *y;
    const int32_t *scale;  // above -2^31
    const int8_t *exponent;
    const int32_t *offset;
    const int8_t *missing;
    uint32_t rows;
    uint16_t n;
} mica_features_s8_t;

size_t mica_features_s8_x_bytes(const mica_features_s8_t *p);
size_t mica_features_s8_y_bytes(const mica_features_s8_t *p);
mica_status_t mica_features_s8_check_constants(const mica_features_s8_t *p, const char **what);

// ---- ranks_s8: y[r,c] = -128 + how many of the thresholds first[c] to first[c + 1] - 1 are less than x[r,source[c]]
//   x float32 [rows, in_n] as bit patterns; y int8 [rows, out_n]; a NaN gives missing[c]; first [out_n + 1]
//   thresholds: float32 as integers of the same order, ascending in each column (SPEC.md); rows: rows
typedef struct {
    const int32_t *x;
    int8_t *y;
    const int32_t *thresholds;  // n_thresholds of them
    const uint32_t *first;
    const uint16_t *source;
    const int8_t *missing;
    uint32_t rows, n_thresholds;
    uint16_t in_n, out_n;
} mica_ranks_s8_t;

size_t mica_ranks_s8_x_bytes(const mica_ranks_s8_t *p);
size_t mica_ranks_s8_y_bytes(const mica_ranks_s8_t *p);
mica_status_t mica_ranks_s8_check_constants(const mica_ranks_s8_t *p, const char **what);

// ---- trees_s8: y[r,n] = clamp(y_zero + requant(bias[n] + what the leaves that x[r] reaches add to n))
//   x int8 [rows, in_n]; y int8 [rows, out_n]; nodes uint16 [words], a tree begins at each of roots [trees]
//   scratch: mica_scratch_min, 4 bytes for each of out_n; rows: rows
#define MICA_TREE_INSIDE 0x8000  // not the first word of a record
#define MICA_TREE_LEAF 0x4000    // the first word of a leaf's entry
#define MICA_TREE_MORE 0x2000    // another entry follows
#define MICA_TREE_COLUMNS 0x2000 // most columns of x and of y
#define MICA_TREE_JUMP 0x7fff    // words from a node's first child to its second
typedef struct {
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    const uint16_t *nodes;
    const uint32_t *roots;
    const int32_t *bias;
    uint32_t rows, words, trees;
    uint16_t in_n, out_n;
    int32_t mult;
} mica_trees_s8_t;

size_t mica_trees_s8_x_bytes(const mica_trees_s8_t *p);
size_t mica_trees_s8_y_bytes(const mica_trees_s8_t *p);
mica_status_t mica_trees_s8_check_constants(const mica_trees_s8_t *p, const char **what);

// ---- forest_s8: as trees_s8, for trees of up to 255 columns whose nodes are words of 32 bits
//   x int8 [rows, in_n]; y int8 [rows, out_n]; nodes int32 [words], the last MICA_FOREST_SPARE of them leaves that no tree reaches,
//   a tree begins at each of roots [trees]; leaves int32 [units], an entry each
//   scratch: mica_scratch_min, a row of x filled up to 256 bytes and 4 bytes for each of out_n; rows: rows
#define MICA_FOREST_LEAF 0x800000    // of a node: a leaf
#define MICA_FOREST_SHIFT 8          // of its field: words from a node's first child to its second, or the first entry of a leaf
#define MICA_FOREST_FIELD 0x7fff     // largest field
#define MICA_FOREST_MARK 0x808000ffu // a leaf without its field: x[255] > -128, which a walk takes for true
#define MICA_FOREST_MORE 0x8000      // of an entry: another one follows
#define MICA_FOREST_COLUMNS 255      // most columns of x
#define MICA_FOREST_SPARE 3          // so that four words are read for each look at the end
typedef struct {
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    const int32_t *nodes, *leaves;
    const uint32_t *roots;
    const int32_t *bias;
    uint32_t rows, words, trees, units;
    uint16_t in_n, out_n;
    int32_t mult;
} mica_forest_s8_t;

size_t mica_forest_s8_x_bytes(const mica_forest_s8_t *p);
size_t mica_forest_s8_y_bytes(const mica_forest_s8_t *p);
mica_status_t mica_forest_s8_check_constants(const mica_forest_s8_t *p, const char **what);

// ---- distances_s8: y[r,s] = the sum over f of |g[f] - points[f,s]|, of its square, or of g[f] * points[f,s]
//   x float32 [rows, in_n] as bit patterns; y int32 [rows, out_n]; points int16 [in_n, out_n], within +-bound as missing is
//   g[f] = x[r,f] on its grid (kernels/place.h), limited to +-bound; missing[f] for a NaN; rows: rows
#define MICA_DISTANCES_SUM 0
#define MICA_DISTANCES_SQUARES 1
#define MICA_DISTANCES_PRODUCTS 2
typedef struct {
    uint8_t kind;
    const int32_t *x;
    int32_t *y;
    const int16_t *points;
    const int32_t *scale;  // above -2^31
    const int8_t *exponent;
    const int32_t *offset;
    const int16_t *missing;
    uint32_t rows;
    uint16_t in_n, out_n;
    int16_t bound;
} mica_distances_s8_t;

size_t mica_distances_s8_x_bytes(const mica_distances_s8_t *p);
size_t mica_distances_s8_y_bytes(const mica_distances_s8_t *p);
mica_status_t mica_distances_s8_check_constants(const mica_distances_s8_t *p, const char **what);

// ---- nearest_s8: y[r,n] = clamp(y_zero + requant(2^8 * the weighted mean of the values of the k nearest whose target is n))
//   x int32 [rows, in_n]; y int8 [rows, out_n]; target uint16, value int16 [in_n]; weights by kind (SPEC.md)
//   scratch: mica_scratch_min, 8 bytes for each of out_n, and 4; rows: rows
#define MICA_NEAREST_UNIFORM 0
#define MICA_NEAREST_BY_ROOT 1
#define MICA_NEAREST_BY_VALUE 2
typedef struct {
    uint8_t kind;
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int32_t *x;
    int8_t *y;
    const uint16_t *target;
    const int16_t *value;
    uint32_t rows;
    uint16_t in_n, out_n, k;
    int32_t mult;
} mica_nearest_s8_t;

size_t mica_nearest_s8_x_bytes(const mica_nearest_s8_t *p);
size_t mica_nearest_s8_y_bytes(const mica_nearest_s8_t *p);
mica_status_t mica_nearest_s8_check_constants(const mica_nearest_s8_t *p, const char **what);

// ---- machine_s8: y[r,n] = clamp(y_zero + requant(bias[n] + (the sum over s of f(x[r,s]) * factors[s,n] >> down)))
//   x int32 [rows, in_n]; y int8 [rows, out_n]; factors int16 [in_n, out_n]; f by in_mult, in_shift, in_offset and table (SPEC.md)
//   scratch: mica_scratch_min, 8 bytes for each of out_n, and 4; rows: rows
#define MICA_MACHINE_TABLE 257  // entries
typedef struct {
    int8_t in_shift, shift;
    uint8_t down;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int32_t *x;
    int8_t *y;
    const int32_t *table;  // within +-2^22
    const int16_t *factors;
    const int32_t *bias;
    uint32_t rows;
    uint16_t in_n, out_n;
    int32_t in_mult, in_offset, mult;
} mica_machine_s8_t;

size_t mica_machine_s8_x_bytes(const mica_machine_s8_t *p);
size_t mica_machine_s8_y_bytes(const mica_machine_s8_t *p);
mica_status_t mica_machine_s8_check_constants(const mica_machine_s8_t *p, const char **what);
// ---- log_mel_s8: y[r,c] = out(bias[c] + sum over bands b of dct[c,b] * log2(sum over bins of gain * |FFT of frame r|))
//   x int16 [samples]; y int8 [frames, out_n]; frame r begins at sample r * hop; without a DCT column c is band c
//   filters [bands, 2]: first bin and number of bins, whose gains follow one another; arithmetic: SPEC.md
//   scratch: mica_log_mel_s8_scratch_bytes; rows: frames
#define MICA_LOG_MEL_POWER 1  // squares of sizes
#define MICA_LOG_MEL_PEAK 2   // as if x were divided by its largest value, or 1 where that is less
#define MICA_LOG_MEL_LIMIT 4  // what is below the floor becomes it; otherwise it is added
#define MICA_LOG_MEL_DCT 8    // there is a dct
#define MICA_LOG_MEL_BEFORE 16  // the first sample is only the one before the first frame
#define MICA_LOG_MEL_PAD 32     // frames begin `pad` samples before x, and may end behind it: zeros lie there
#define MICA_LOG_MEL_MIRROR 64  // or x mirrored at its first and last sample
#define MICA_LOG_MEL_CIRCLE 128  // not in files: the twiddles are as symmetric as a circle, and [0] is 1
#define MICA_LOG_MEL_MOST_POINTS 2048
typedef struct {
    int8_t floor_exponent;
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    uint8_t flags;
    const int16_t *x;
    int8_t *y;
    const int16_t *window;    // [frame]
    const int16_t *twiddles;  // [fft / 2 + 1, 2]: cos and sin of 2 * pi * k / fft in units of 2^-14
    const uint16_t *filters;
    const uint16_t *gains;  // [n_gains]
    const int16_t *dct;       // [out_n, bands]
    const int32_t *bias;      // [out_n]
    uint32_t n_gains;
    int32_t floor;
    int32_t mult;
    uint16_t samples, frames, pad;
    uint16_t frame, hop, fft, bands, out_n, preemphasis;
    uint16_t bin_begin, bin_end;  // those bins that a filter holds
} mica_log_mel_s8_t;

size_t mica_log_mel_s8_x_bytes(const mica_log_mel_s8_t *p);
size_t mica_log_mel_s8_y_bytes(const mica_log_mel_s8_t *p);
size_t mica_log_mel_s8_dct_bytes(const mica_log_mel_s8_t *p);
uint32_t mica_log_mel_s8_scratch_bytes(const mica_log_mel_s8_t *p);
mica_status_t mica_log_mel_s8_check_constants(const mica_log_mel_s8_t *p, const char **what);
// Of constants that are checked: which bins are needed, and the flag circle.
void mica_log_mel_s8_prepare(mica_log_mel_s8_t *p);

// ---- attend_s8: rows of queries, of which heads share keys and values; formula: SPEC.md, kernel 48
//   q int8 [heads, m, d]; k int8 [heads, t, d]; v int8 [heads, t, e]; length int32 [1], length + more limited to [1, t]; y int8 [heads, m, e]
//   table uint16 [257]; scratch: mica_attend_s8_scratch_bytes(p), 4-byte aligned; rows: heads * m
typedef struct {
    int8_t fall_shift, shift;
    int8_t q_zero, k_zero, v_zero, y_zero;
    int8_t act_min, act_max;
    uint8_t more;
    const int8_t *q, *k, *v;
    const int32_t *length;
    int8_t *y;
    const uint16_t *table;
    uint16_t first;  // table[0] when it was checked
    uint32_t heads, limit, fall;
    int32_t mult;
    uint16_t m, t, d, e;
} mica_attend_s8_t;

// As many rows of keys and values as there are to be seen.
static inline uint32_t mica_attend_s8_seen(const mica_attend_s8_t *p) {
    const int32_t asked = *p->length, more = p->more;
    return asked < 1 - more ? 1 : asked > p->t - more ? p->t : (uint32_t)(asked + more);
}

mica_status_t mica_attend_s8_check_constants(const mica_attend_s8_t *p, const char **what);
uint32_t mica_attend_s8_scratch_bytes(const mica_attend_s8_t *p);

// ---- rotate_s8: rows of two halves, turned against each other; formula: SPEC.md, kernel 49
//   x, y int8 [rows, 2 * half]; c, s int8 [turns, half], each row for `inner` rows of x, and then again; y may be x
typedef struct {
    uint8_t shift;
    int8_t x_zero, c_zero, s_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *x, *c, *s;
    int8_t *y;
    uint32_t rows, half, turns, inner;
    int32_t mult_c, mult_s;
} mica_rotate_s8_t;

// ---- pcan_s8: features of speech as TensorFlow Lite Micro's front end has them; formula: SPEC.md, kernel 50
//   x int16 [samples]; y int8 [frames, bands]; frame r begins at sample r * hop; the noise of a band is 0 before the first
//   noise int8 [4, bands] or NULL: that before the first frame, its bytes, the lowest first, each counted from noise_zero on;
//   y then has that behind the last frame below, counted from y_zero on
//   filters [bands + 1, 2]: first bin and number of bins, whose gains [n_gains, 2], for a band and the next, follow one another
//   scratch: mica_pcan_s8_scratch_bytes; rows: 1
#define MICA_PCAN_MOST_POINTS 2048
typedef struct {
    uint8_t places, snr_shift, log_places;
    int8_t correction, shift, noise_zero, y_zero;
    int8_t act_min, act_max;
    const int16_t *x;
    const int8_t *noise;
    int8_t *y;
    const int16_t *window;    // [frame]
    const int16_t *twiddles;  // [fft / 2 + fft / 4, 2]
    const uint16_t *filters;
    const uint16_t *gains;
    const int16_t *lut;    // [125]
    const uint16_t *logs;  // [129]
    uint32_t samples, frames, n_gains;
    int32_t mult;
    uint16_t frame, hop, fft, bands, even, odd, least;
} mica_pcan_s8_t;

uint32_t mica_pcan_s8_scratch_bytes(const mica_pcan_s8_t *p);
mica_status_t mica_pcan_s8_check_constants(const mica_pcan_s8_t *p, const char **what);

// ---- pcen_s8: bands of sound, each divided by a power of what it was before: per-channel energy normalisation; formula: SPEC.md, kernel 57
//   sound: as of log_mel_s8, of its flags power and before alone; its floor, its DCT, bias and requantisation are not looked at
//   noise int8 [4, bands] or NULL, and y, as of pcan_s8; of a band of which nothing is known the noise is `start`, or its first energy where that is 0
//   curve int16 [points]: 2^8 times the output, at logarithms that lie 2^-places apart, the first at `origin`
//   scratch: mica_pcen_s8_scratch_bytes; rows: 1
#define MICA_PCEN_ONE (1 << 16)  // of smooth and alpha
typedef struct {
    mica_log_mel_s8_t sound;
    const int8_t *noise;
    const int16_t *curve;
    uint32_t smooth, alpha;
    int32_t eps, start, origin;
    int16_t eps_exponent, start_exponent;
    uint16_t points;
    uint8_t places;
    int8_t noise_zero;
} mica_pcen_s8_t;

uint32_t mica_pcen_s8_scratch_bytes(const mica_pcen_s8_t *p);
mica_status_t mica_pcen_s8_check_constants(const mica_pcen_s8_t *p, const char **what);
void mica_pcen_s8_prepare(mica_pcen_s8_t *p);  // as of log_mel_s8

// ---- axes_s8: features of the axes of a window; formula: SPEC.md, kernel 56
//   x int16 [rows, axes]; y int8 [axes, each], or [each, axes] with the flag across; bias, mult and shift one for each of y
//   stats: each - bands digits of 4 bits, MICA_AXES_MEAN and so on, the first the lowest; filters [bands, 2]: first bin and number of bins; least [axes]
//   scratch: mica_axes_s8_scratch_bytes(p), 4-byte aligned; rows: axes, across 1
enum {
    MICA_AXES_MEAN, MICA_AXES_STD, MICA_AXES_RMS, MICA_AXES_MIN, MICA_AXES_MAX, MICA_AXES_PTP, MICA_AXES_CROSS, MICA_AXES_ZEROS,
    MICA_AXES_STATS
};
enum { MICA_AXES_POWER, MICA_AXES_ROOT, MICA_AXES_LOG, MICA_AXES_ENERGIES };  // what becomes of a sum of squares
#define MICA_AXES_ACROSS 1
#define MICA_AXES_CIRCLE 128  // not in files: as MICA_LOG_MEL_CIRCLE
#define MICA_AXES_MOST_ROWS 2048
#define MICA_AXES_PLACES 96
typedef struct {
    const int16_t *x;
    int8_t *y;
    const int16_t *tables;  // [fft / 2 + 1, 2]: cos and sin of 2 * pi * k / fft in units of 2^-14; then the window [rows]
    const uint16_t *filters;
    const int32_t *least;
    const int32_t *bias, *mult;
    const int8_t *shift;
    uint32_t stats;
    uint16_t rows, axes, each, bands, fft;
    uint16_t bin_begin, bin_end;  // those bins that a band holds
    int8_t places;
    uint8_t energy, flags;
    int8_t y_zero;
    int8_t act_min, act_max;
} mica_axes_s8_t;

uint32_t mica_axes_s8_scratch_bytes(const mica_axes_s8_t *p);
mica_status_t mica_axes_s8_check_constants(const mica_axes_s8_t *p, const char **what);
// Of constants that are checked: which bins are needed, and the flag circle.
void mica_axes_s8_prepare(mica_axes_s8_t *p);

// ---- kernels of int16: zero points are 0; int16 buffers lie on multiples of 2
// conv2d_s16: y = clamp(requant(bias[o] + sum of x * w)), as conv2d_s8, outside the image x reads 0; sums have 64 bits
//   x int16 [1, H, W, Cin]; y int16 [1, OH, OW, Cout]; weights int8 [Cout, KH, KW, Cin / groups]; bias, mult, shift one for each
//   output channel; rows: OH
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
mica_status_t mica_conv2d_s16_check_constants(const mica_conv2d_s16_t *p, const char **what);

// pool_s16: y = clamp(requant(|sum of x|, mult[e], shift[e]), with the sign of the sum), e = n - 1, or 0 with one entry;
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

mica_status_t mica_pool_s16_check_constants(const mica_pool_s16_t *p, const char **what);

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

// lut_s16: with u = x + 2^15, d = 16 - bits, t = table + (u >> d): y = t[0] + (((t[1] - t[0]) * (u mod 2^d) + 2^(d-1)) >> d)
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

mica_status_t mica_softmax_s16_check_constants(const mica_softmax_s16_t *p, const char **what);

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

// ---- what every kernel has
#define MICA_DECLARE(op, name, NAME) \
    mica_status_t mica_##name##_check(const mica_##name##_t *p, const char **what); \
    uint32_t mica_##name##_rows(const mica_##name##_t *p); \
    void mica_##name##_ref(const mica_##name##_t *p, MICA_KERNEL_ARGS);
MICA_OPERATORS(MICA_DECLARE)
#undef MICA_DECLARE

// Bytes of scratch a step of this kernel cannot run without, on any core; the same formulas as in host_tools/mica/kernels.
uint32_t mica_scratch_min(uint32_t kernel, uint32_t out_channels, uint32_t reduction);

#endif

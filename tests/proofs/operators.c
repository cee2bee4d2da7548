// What CBMC proves of the operators' loaders: a kernel gets what its walk assumes. Its check has accepted the shapes it
// runs on, they are those of the tensors, and its constants are as long as it says. Here: windows, weights, int16.
#include "asked.h"
#include "op_conv.c"
#include "op_dense.c"
#include "op_pool.c"
#include "op_wide.c"

// --- windows

#define WINDOW(w) \
    (w).in_h, (w).in_w, (w).in_c, (w).out_h, (w).out_w, (w).out_c, (w).kernel_h, (w).kernel_w, (w).stride_h, \
        (w).stride_w, (w).dilation_h, (w).dilation_w, (w).pad_top, (w).pad_left
#define IMAGE(in, out) \
    (r.x[0].rank == 4 && (in)[0] == 1 && p->win.in_h == (in)[1] && p->win.in_w == (in)[2] && p->win.in_c == (in)[3] \
        && r.y.rank == 4 && (out)[0] == 1 && p->win.out_h == (out)[1] && p->win.out_w == (out)[2] \
        && p->win.out_c == (out)[3] && ONE(p))
#define IMAGES IMAGE(r.x[0].dims, r.y.dims)

// Kernels with channels: `weights` bytes, in layouts that they read, then bias, mult and shift of n channels.
#define CHANNELS(NAME, n, layouts) \
    (constants && ((layouts) >> p->ch.layout & 1) && lengths[0] == weights && (size_t)(MICA_CODED(p->ch.layout) \
            ? p->ch.table == places[0] && p->ch.weights == (const int8_t *)places[0] + MICA_CODES \
            : p->ch.weights == places[0]) \
        && HAS(ch.bias, NAME##_BLOB_BIAS, (size_t)(n) * 4) && HAS(ch.mult, NAME##_BLOB_MULT, (size_t)(n) * 4) \
        && HAS(ch.shift, NAME##_BLOB_SHIFT, n))

static size_t weights;  // bytes, as a kernel said last

#define WEIGHTS(op, channels) \
    size_t mica_##op##_s8_weights_bytes(const mica_##op##_s8_t *p) { \
        __CPROVER_assert(same(numbers_##op(p)), "weights of shapes that were accepted"); \
        weights = nondet_u32(); \
        __CPROVER_assume(!MICA_CODED(p->ch.layout) || weights >= MICA_CODES); \
        return weights; \
    } \
    uint32_t mica_##op##_s8_channels(const mica_##op##_s8_t *p) { \
        return channels; \
    }
#define CONVOLUTION(op, NAME, groups, layouts) \
    CHECKS(op, op##_s8, WINDOW(p->win), groups, p->ch.act_min, p->ch.act_max, p->ch.layout) \
    PROOF(op, op##_s8, IMAGES && CHANNELS(NAME, p->win.out_c, layouts) && p->x_zero == (int8_t)r.x[0].zero_point, \
        = { 0 })  /* by load_step, for those without a layout */ \
    WEIGHTS(op, p->win.out_c)

CONVOLUTION(conv2d, CONV2D_S8, p->groups, MICA_CONV2D_S8_LAYOUTS)
CONVOLUTION(depthwise_conv2d, DEPTHWISE_CONV2D_S8, 0, 1 << MICA_LAYOUT_PLAIN)
CONVOLUTION(conv_transpose2d, CONV_TRANSPOSE2D_S8, p->groups, 1 << MICA_LAYOUT_PLAIN)

// Kernels with a factor for each of some entries.
#define ENTRIES(NAME) \
    (constants && HAS(mult, NAME##_BLOB_MULT, (size_t)p->entries * 4) && HAS(shift, NAME##_BLOB_SHIFT, p->entries))

KERNEL(max_pool2d, max_pool2d_s8, IMAGES, WINDOW(p->win), CLAMP)
KERNEL(average_pool2d, average_pool2d_s8, IMAGES && ENTRIES(AVERAGE_POOL2D_S8), WINDOW(p->win), CLAMP, p->entries,
    p->pad_bottom, p->pad_right, p->count_include_pad)
KERNEL(pool_s16, pool_s16, IMAGES && ENTRIES(POOL_S16), WINDOW(p->win), CLAMP, p->entries, p->largest)
KERNEL(conv2d_s16, conv2d_s16, IMAGES && constants
    && HAS(weights, CONV2D_S16_BLOB_WEIGHTS, (size_t)times(p->win.out_c, sized))
    && HAS(bias, CONV2D_S16_BLOB_BIAS, (size_t)p->win.out_c * 4)
    && HAS(mult, CONV2D_S16_BLOB_MULT, (size_t)p->win.out_c * 4)
    && HAS(shift, CONV2D_S16_BLOB_SHIFT, p->win.out_c), WINDOW(p->win), p->groups, CLAMP)
SIZE(conv2d_s16, conv2d_s16, reduction, uint32_t)

// --- matrices

#define MATRIX(in, out) (alike(&r.x[0], &r.y, r.y.rank - 1u) && r.y.rank >= 1 \
    && p->rows == product(&r.y, 0, r.y.rank - 1u) && p->in == last(&r.x[0]) && p->out == last(&r.y) && ONE(p))

KERNEL(fully_connected, fully_connected_s8, MATRIX(in_k, out_n)
    && CHANNELS(FULLY_CONNECTED_S8, p->out_n, MICA_FULLY_CONNECTED_S8_LAYOUTS), p->rows, p->in_k, p->out_n,
    p->ch.act_min, p->ch.act_max, p->ch.layout)
WEIGHTS(fully_connected, p->out_n)

static const mica_matmul_s8_t *matrices;  // whose shapes are those of the operands

mica_status_t mica_matmul_s8_shapes(mica_matmul_s8_t *p, const uint32_t *a_dims, uint32_t a_rank,
    const uint32_t *b_dims, uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what) {
    matrices = p;
    p->m = (uint16_t)nondet_u32();
    p->k = (uint16_t)nondet_u32();
    p->n = (uint16_t)nondet_u32();
    return mica_broadcast_shapes(&p->batch, a_dims, a_rank, b_dims, b_rank, y_dims, y_rank, what);
}
KERNEL(matmul, matmul_s8, matrices == p && broadcast == &p->batch && record == &r && TWO, SHAPE(p->batch), p->m,
    p->k, p->n, p->transpose_b, p->mult, p->shift, CLAMP)

// --- int16

KERNEL(binary_s16, binary_s16, BROADCAST, SHAPE(p->shape), p->mult_a, p->mult_b, p->mult_ab, p->shift, CLAMP)
KERNEL(lut_s16, lut_s16, ONE(p) && alike(&r.x[0], &r.y, 9) && p->n == r.y.bytes / 2
    && HAS(table, LUT_S16_BLOB_TABLE, ((size_t)2 << p->bits) + 2), p->n, p->bits)
KERNEL(softmax_s16, softmax_s16, ONE(p) && constants && alike(&r.x[0], &r.y, 9) && p->axis == last(&r.y)
    && p->rows == divided(r.y.bytes / 2, p->axis) && HAS(table, SOFTMAX_S16_BLOB_EXPONENTIALS, 2048), p->rows, p->axis)
KERNEL(widen_s16, widen_s16, ONE(p) && p->n == r.x[0].bytes && p->n == r.y.bytes / 2, p->n, p->mult, p->shift, CLAMP)
KERNEL(narrow, narrow_s8, ONE(p) && p->n == r.y.bytes && p->n == r.x[0].bytes / 2, p->n, p->mult, p->shift, CLAMP)

// What CBMC proves of the operators' loaders: a kernel gets what its walk assumes. Its check has accepted the shapes it
// runs on, they are those of the tensors, and its constants are as long as it says.
#include "loader.c"
#include "op_conv.c"
#include "op_dense.c"
#include "op_pool.c"
#include "op_wide.c"

// --- contracts

typedef struct {
    mica_window_t win;
    int32_t numbers[5];  // others that the check looks at
} shape_t;

static shape_t accepted;  // by the kernel's check
static bool checked, constants;
static size_t weights, lengths[MICA_MAX_BLOBS];
static const mica_channels_t *loaded;

static bool same(const shape_t *a) {
    const mica_window_t *v = &a->win, *w = &accepted.win;
    bool equal = checked && v->in_h == w->in_h && v->in_w == w->in_w && v->in_c == w->in_c && v->out_h == w->out_h
        && v->out_w == w->out_w && v->out_c == w->out_c && v->kernel_h == w->kernel_h && v->kernel_w == w->kernel_w
        && v->stride_h == w->stride_h && v->stride_w == w->stride_w && v->dilation_h == w->dilation_h
        && v->dilation_w == w->dilation_w && v->pad_top == w->pad_top && v->pad_left == w->pad_left;
    for (uint32_t i = 0; i < 5; ++i) {
        equal = equal && a->numbers[i] == accepted.numbers[i];
    }
    return equal;
}

// load_channels: constants of n channels, `bytes` of weights.
static void some_channels(mica_step_record_t *r, mica_channels_t *ch, size_t bytes, uint32_t n) {
    __CPROVER_assert(bytes == weights && n == accepted.win.out_c, "as many as the kernel says");
    loaded = ch;
    if (nondet_bool()) {
        r->err->status = MICA_ERR_STEP;
    }
}

// load_blob: `bytes` of a constant.
static const void *some_constant(mica_step_record_t *r, uint32_t i, size_t bytes) {
    static uint64_t word;
    __CPROVER_assert(i < MICA_MAX_BLOBS && checked, "a constant of shapes that were accepted");
    lengths[i] = bytes;
    if (nondet_bool()) {
        r->err->status = MICA_ERR_STEP;
        return NULL;
    }
    return &word;
}

// --- proofs

// A kernel's check, the numbers that it looks at beside the window, and its loader, which is proved. `ready` has to be
// true of its constants.
#define KERNEL(op, name, ready, ...) \
    CHECKS(op, name, p->win, __VA_ARGS__) \
    PROOF(op, name, ready, IMAGE(&p->win, r.x[0].dims, r.y.dims))
#define CHECKS(op, name, window, ...) \
    static shape_t shape_##op(const mica_##name##_t *p) { \
        return (shape_t) { window, { __VA_ARGS__ } }; \
    } \
    mica_status_t mica_##name##_check(const mica_##name##_t *p, const char **what) { \
        (void)what; \
        accepted = shape_##op(p); \
        checked = nondet_bool(); \
        return checked ? MICA_OK : MICA_ERR_SHAPE; \
    } \
    mica_status_t mica_##name##_check_constants(const mica_##name##_t *p, const char **what) { \
        (void)what; \
        const shape_t shape = shape_##op(p); \
        __CPROVER_assert(same(&shape), "constants of shapes that were accepted"); \
        constants = nondet_bool(); \
        return constants ? MICA_OK : MICA_ERR_RANGE; \
    }
#define IMAGE(w, in, out) \
    (r.x[0].rank == 4 && (in)[0] == 1 && (w)->in_h == (in)[1] && (w)->in_w == (in)[2] && (w)->in_c == (in)[3] \
        && r.y.rank == 4 && (out)[0] == 1 && (w)->out_h == (out)[1] && (w)->out_w == (out)[2] \
        && (w)->out_c == (out)[3])
#define PROOF(op, name, ready, shapes) \
    void prove_##op(void) { \
        RECORD; \
        mica_step_t s = { .run = NULL };  /* load_step */ \
        err.status = MICA_OK; \
        mica_load_##op(&r, &s); \
        const mica_##name##_t *p = &s.p.op; \
        const shape_t shape = shape_##op(p); \
        if (err.status == MICA_OK) { \
            __CPROVER_assert(same(&shape) && (ready), "shapes and constants are accepted"); \
            __CPROVER_assert((uint8_t *)p->x == r.x[0].data && (uint8_t *)p->y == r.y.data, "tensors"); \
            __CPROVER_assert(shapes, "the shapes of the tensors"); \
            __CPROVER_assert(s.run == run_##op, "its function"); \
        } \
    }

// The same of kernels with channels, and layouts of weights that they read.
#define CHANNELS(op, groups, layouts) \
    KERNEL(op, op##_s8, LOADED(layouts) && p->x_zero == (int8_t)r.x[0].zero_point, groups, p->ch.act_min, \
        p->ch.act_max, p->ch.layout) \
    WEIGHTS(op, p->win.out_c)
#define LOADED(layouts) (constants && loaded == &p->ch && ((layouts) >> p->ch.layout & 1))
#define WEIGHTS(op, channels) \
    size_t mica_##op##_s8_weights_bytes(const mica_##op##_s8_t *p) { \
        const shape_t shape = shape_##op(p); \
        __CPROVER_assert(same(&shape), "weights of shapes that were accepted"); \
        return weights = nondet_size(); \
    } \
    uint32_t mica_##op##_s8_channels(const mica_##op##_s8_t *p) { \
        return channels; \
    }

// Kernels with a factor for each of some entries.
#define ENTRIES(NAME) \
    (constants && lengths[MICA_##NAME##_BLOB_MULT] == 4 * (size_t)p->entries \
        && lengths[MICA_##NAME##_BLOB_SHIFT] == p->entries)

CHANNELS(conv2d, p->groups, MICA_CONV2D_S8_LAYOUTS)
CHANNELS(depthwise_conv2d, 0, 1 << MICA_LAYOUT_PLAIN)
CHANNELS(conv_transpose2d, p->groups, 1 << MICA_LAYOUT_PLAIN)
KERNEL(max_pool2d, max_pool2d_s8, true, p->act_min, p->act_max)
KERNEL(average_pool2d, average_pool2d_s8, ENTRIES(AVERAGE_POOL2D_S8), p->act_min, p->act_max, (int32_t)p->entries,
    p->pad_bottom + 65536 * p->count_include_pad, p->pad_right)
KERNEL(pool_s16, pool_s16, ENTRIES(POOL_S16), p->act_min, p->act_max, (int32_t)p->entries, p->largest)

// Bytes of n rows of weights.
static size_t some_weights(size_t n, uint32_t row) {
    __CPROVER_assert(n == accepted.win.out_c && row == (uint32_t)weights, "as many as the kernel says");
    return nondet_size();
}

uint32_t mica_conv2d_s16_reduction(const mica_conv2d_s16_t *p) {
    (void)p;
    return (uint32_t)(weights = nondet_u32());
}

static bool of_channels(void) {
    const size_t n = accepted.win.out_c;
    return lengths[MICA_CONV2D_S16_BLOB_BIAS] == 4 * n && lengths[MICA_CONV2D_S16_BLOB_MULT] == 4 * n
        && lengths[MICA_CONV2D_S16_BLOB_SHIFT] == n;
}

KERNEL(conv2d_s16, conv2d_s16, constants && of_channels(), p->groups, p->act_min, p->act_max)

// A matrix: the product of the dimensions before the last is one number, see load_shapes.
static bool is_matrix(const mica_tensor_t *x, const mica_tensor_t *y, const mica_fully_connected_s8_t *p) {
    return x->rank == y->rank && x->rank >= 1 && p->in_k == x->dims[x->rank - 1] && p->out_n == y->dims[y->rank - 1]
        && (x->rank > 2 || p->rows == (x->rank == 1 ? 1 : x->dims[0]));
}

CHECKS(fully_connected, fully_connected_s8, { .out_c = p->out_n }, (int32_t)p->rows, p->in_k, p->ch.act_min,
    p->ch.act_max, p->ch.layout)
WEIGHTS(fully_connected, p->out_n)
PROOF(fully_connected, fully_connected_s8, LOADED(MICA_FULLY_CONNECTED_S8_LAYOUTS), is_matrix(&r.x[0], &r.y, p))

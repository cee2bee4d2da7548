// The kernels on any buffers, from the REPL: every argument is checked here or by the kernel's own check functions, so
// that no call can read or write outside the buffers it was given. What a kernel computes: host_tools/mica/format/SPEC.md.
//
// Shapes are tuples without the batch: (H, W, C). A buffer's length must be exactly what the shapes say; slice a
// memoryview for a part. int8 buffers: bytes, bytearray, array('b'), memoryview. int32 buffers: array('i').

#include <string.h>

#include "py/binary.h"

#include "mp_mica.h"
#include "mica_select.h"

#ifndef MICA_WITHOUT_RAW
// A build that leaves out kernels may leave nothing that uses one of these.
#define HELPER static __attribute__((unused))

typedef struct {
    uint8_t *data;
    size_t bytes;
} raw_t;

HELPER raw_t get_raw(mp_obj_t obj, const char *name, mp_uint_t flags, size_t size) {
    mp_buffer_info_t buf;
    if (mp_obj_is_str(obj) || !mp_get_buffer(obj, &buf, flags)) {
        mp_raise_msg_varg(&mp_type_TypeError, (flags & MP_BUFFER_WRITE) ? MP_ERROR_TEXT("%s: a writable buffer is expected")
            : MP_ERROR_TEXT("%s: a buffer is expected"), name);
    }
    bool plain = buf.typecode == 'B' || buf.typecode == BYTEARRAY_TYPECODE;
    if (size == 1) {
        plain |= buf.typecode == 'b';
    } else if (buf.typecode > 0 && strchr("iIlL", buf.typecode) != NULL) {
        plain |= mp_binary_get_size('@', (char)buf.typecode, NULL) == size;
    }
    if (!plain) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("%s: an array('%c') is expected"), name, size == 1 ? 'b' : 'i');
    }
    if ((uintptr_t)buf.buf % size != 0 || buf.len % size != 0) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: not aligned to %u bytes"), name, (unsigned)size);
    }
    raw_t raw = { buf.buf, buf.len };
    return raw;
}

HELPER const void *in(mp_obj_t obj, const char *name, size_t bytes, raw_t *raw) {
    *raw = get_raw(obj, name, MP_BUFFER_READ, 1);
    if (raw->bytes != bytes) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: %u bytes, expected %u"), name, (unsigned)raw->bytes,
            (unsigned)bytes);
    }
    return raw->data;
}

HELPER const void *in_words(mp_obj_t obj, const char *name, size_t n, raw_t *raw) {
    *raw = get_raw(obj, name, MP_BUFFER_READ, 4);
    if (raw->bytes / 4 != n) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: %u values, expected %u"), name,
            (unsigned)(raw->bytes / 4), (unsigned)n);
    }
    return raw->data;
}

// The output may share no byte with what is read; a kernel that works in place may also have it exactly there.
HELPER void *out(mp_obj_t obj, size_t bytes, const raw_t *inputs, size_t n, size_t n_in_place) {
    raw_t raw = get_raw(obj, "out", MP_BUFFER_WRITE, 1);
    if (raw.bytes != bytes) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("out: %u bytes, expected %u"), (unsigned)raw.bytes,
            (unsigned)bytes);
    }
    for (size_t i = 0; i < n; i++) {
        bool apart = raw.data + raw.bytes <= inputs[i].data || inputs[i].data + inputs[i].bytes <= raw.data;
        bool same = i < n_in_place && raw.data == inputs[i].data && raw.bytes == inputs[i].bytes;
        if (!apart && !same) {
            mp_raise_ValueError(MP_ERROR_TEXT("out overlaps an input"));
        }
    }
    return raw.data;
}

HELPER int32_t ranged(mp_int_t value, mp_int_t min, mp_int_t max, const char *name) {
    if (value < min || value > max) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: not in %d to %d"), name, (int)min, (int)max);
    }
    return (int32_t)value;
}

HELPER int8_t get_s8(const mp_arg_val_t *arg, const char *name) {
    return (int8_t)ranged(arg->u_int, -128, 127, name);
}

// A tuple or list of exactly n numbers into u16s.
HELPER void get_u16s(mp_obj_t obj, const char *name, size_t n, uint16_t *to) {
    size_t len = 0;
    mp_obj_t *items = NULL;
    if (mp_obj_is_type(obj, &mp_type_tuple) || mp_obj_is_type(obj, &mp_type_list)) {
        mp_obj_get_array(obj, &len, &items);
    }
    if (len != n) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: a tuple of %u numbers is expected"), name, (unsigned)n);
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = (uint16_t)ranged(mp_mica_get_int(items[i]), 0, MICA_MAX_DIM, name);
    }
}

// A shape of any rank, for add and transpose.
HELPER uint32_t get_shape(mp_obj_t obj, const char *name, uint32_t *dims) {
    size_t len = MICA_MAX_RANK + 1;
    mp_obj_t *items = NULL;
    if (mp_obj_is_type(obj, &mp_type_tuple) || mp_obj_is_type(obj, &mp_type_list)) {
        mp_obj_get_array(obj, &len, &items);
    }
    if (len > MICA_MAX_RANK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: a tuple of at most 6 numbers is expected"), name);
    }
    for (size_t i = 0; i < len; i++) {
        dims[i] = (uint32_t)ranged(mp_mica_get_int(items[i]), 1, MICA_MAX_DIM, name);
    }
    return (uint32_t)len;
}

// By address: the call that makes the status sets *what, and C leaves open which argument is evaluated first.
HELPER void check(mica_status_t status, const char **what) {
    if (status != MICA_OK) {
        mp_raise_msg(&mp_type_ValueError, (mp_rom_error_text_t)(*what == NULL ? "arguments disagree" : *what));
    }
}

#define ARG_OBJ(name) { MP_QSTR_##name, MP_ARG_OBJ | MP_ARG_REQUIRED, { .u_rom_obj = MP_ROM_NONE } }
#define ARG_KW(name) { MP_QSTR_##name, MP_ARG_KW_ONLY | MP_ARG_OBJ | MP_ARG_REQUIRED, { .u_rom_obj = MP_ROM_NONE } }
#define ARG_KW_OBJ(name) { MP_QSTR_##name, MP_ARG_KW_ONLY | MP_ARG_OBJ, { .u_rom_obj = MP_ROM_NONE } }
#define ARG_KW_INT(name, value) { MP_QSTR_##name, MP_ARG_KW_ONLY | MP_ARG_INT, { .u_int = value } }
#define ARG_KW_NEED(name) { MP_QSTR_##name, MP_ARG_KW_ONLY | MP_ARG_INT | MP_ARG_REQUIRED, { .u_int = 0 } }

#define PARSE(allowed) \
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)]; \
    mp_arg_parse_all(n_args, pos_args, kw_args, MP_ARRAY_SIZE(allowed), allowed, args)

// ---- Windows: x_shape, out_shape, kernel, stride, dilation, pad, in this order ----

#define ARGS_WINDOW ARG_KW(x_shape), ARG_KW(out_shape), ARG_KW(kernel), ARG_KW_OBJ(stride), ARG_KW_OBJ(dilation), \
    ARG_KW_OBJ(pad)
#define ARGS_ACT ARG_KW_INT(act_min, -128), ARG_KW_INT(act_max, 127)

static void get_pair(mp_obj_t obj, const char *name, uint16_t missing, uint16_t *a, uint16_t *b) {
    uint16_t pair[2] = { missing, missing };
    if (obj != mp_const_none) {
        get_u16s(obj, name, 2, pair);
    }
    *a = pair[0];
    *b = pair[1];
}

HELPER void get_window(const mp_arg_val_t *args, mica_window_t *win) {
    uint16_t hwc[3];
    get_u16s(args[0].u_obj, "x_shape", 3, hwc);
    win->in_h = hwc[0];
    win->in_w = hwc[1];
    win->in_c = hwc[2];
    get_u16s(args[1].u_obj, "out_shape", 3, hwc);
    win->out_h = hwc[0];
    win->out_w = hwc[1];
    win->out_c = hwc[2];
    if (args[2].u_obj == mp_const_none) {
        mp_raise_ValueError(MP_ERROR_TEXT("kernel: a tuple of 2 numbers is expected"));
    }
    get_pair(args[2].u_obj, "kernel", 1, &win->kernel_h, &win->kernel_w);
    get_pair(args[3].u_obj, "stride", 1, &win->stride_h, &win->stride_w);
    get_pair(args[4].u_obj, "dilation", 1, &win->dilation_h, &win->dilation_w);
    get_pair(args[5].u_obj, "pad", 0, &win->pad_top, &win->pad_left);
}

// ---- Weights: x, weights, bias, mult, shift, out come first, in this order ----

#define ARGS_WEIGHTS ARG_OBJ(x), ARG_OBJ(weights), ARG_OBJ(bias), ARG_OBJ(mult), ARG_OBJ(shift), ARG_OBJ(out)
enum { ARG_x, ARG_weights, ARG_bias, ARG_mult, ARG_shift, ARG_out, ARG_rest };

// raws[0] is left for x.
HELPER void get_channels(const mp_arg_val_t *args, size_t weights_bytes, uint32_t n, mica_channels_t *ch, raw_t *raws) {
    ch->weights = in(args[ARG_weights].u_obj, "weights", weights_bytes, &raws[1]);
    ch->bias = in_words(args[ARG_bias].u_obj, "bias", n, &raws[2]);
    ch->mult = in_words(args[ARG_mult].u_obj, "mult", n, &raws[3]);
    ch->shift = in(args[ARG_shift].u_obj, "shift", n, &raws[4]);
}

HELPER void get_act(const mp_arg_val_t *args, int8_t *act_min, int8_t *act_max) {
    *act_min = get_s8(&args[0], "act_min");
    *act_max = get_s8(&args[1], "act_max");
}

// The fast kernels where the constants allow them, the general one where they do not.
#define CHECK_CONSTANTS(name, p) do { \
        (p)->ch.fast = 1; \
        if (name##_check_constants(p, &what) != MICA_OK) { \
            (p)->ch.fast = 0; \
            check(name##_check_constants(p, &what), &what); \
        } \
} while (0)

#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8
static mp_obj_t raw_gemm(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = { ARGS_WEIGHTS, ARG_KW_INT(y_zero, 0), ARGS_ACT };
    PARSE(allowed);
    const char *what = NULL;
    raw_t raws[5];
    mica_fully_connected_s8_t p = { 0 };
    memset(&p, 0, sizeof(p));
    // The lengths are the shapes: as many outputs as biases, then K from the weights, then the rows from x.
    size_t n = get_raw(args[ARG_bias].u_obj, "bias", MP_BUFFER_READ, 4).bytes / 4;
    size_t weights = get_raw(args[ARG_weights].u_obj, "weights", MP_BUFFER_READ, 1).bytes;
    size_t k = n == 0 ? 0 : weights / n;
    size_t x = get_raw(args[ARG_x].u_obj, "x", MP_BUFFER_READ, 1).bytes;
    size_t rows = k == 0 ? 0 : x / k;
    if (rows == 0 || n > MICA_MAX_DIM || k > MICA_MAX_DIM || rows > INT32_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("x[rows, k], weights[n, k], bias[n]: lengths do not fit"));
    }
    p.out_n = (uint16_t)n;
    p.in_k = (uint16_t)k;
    p.rows = (uint32_t)rows;
    p.ch.y_zero = get_s8(&args[ARG_rest], "y_zero");
    get_act(&args[ARG_rest + 1], &p.ch.act_min, &p.ch.act_max);
    check(mica_fully_connected_s8_check(&p, &what), &what);
    p.x = in(args[ARG_x].u_obj, "x", mica_fully_connected_s8_x_bytes(&p), &raws[0]);
    get_channels(args, mica_fully_connected_s8_weights_bytes(&p), mica_fully_connected_s8_channels(&p), &p.ch, raws);
    p.y = out(args[ARG_out].u_obj, mica_fully_connected_s8_y_bytes(&p), raws, MP_ARRAY_SIZE(raws), 0);
    CHECK_CONSTANTS(mica_fully_connected_s8, &p);
    MICA_FULLY_CONNECTED_S8(&p, 0, mica_fully_connected_s8_rows(&p), NULL, 0);
    return args[ARG_out].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_gemm_obj, 0, raw_gemm);
#endif

#ifndef MICA_WITHOUT_CONV2D_S8
static mp_obj_t raw_conv2d(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = {
        ARGS_WEIGHTS, ARGS_WINDOW, ARG_KW_INT(x_zero, 0), ARG_KW_INT(y_zero, 0), ARGS_ACT, ARG_KW_INT(groups, 1),
    };
    PARSE(allowed);
    const mp_arg_val_t *more = &args[ARG_rest + 6];
    const char *what = NULL;
    raw_t raws[5];
    mica_conv2d_s8_t p = { 0 };
    memset(&p, 0, sizeof(p));
    get_window(&args[ARG_rest], &p.win);
    p.x_zero = get_s8(&more[0], "x_zero");
    p.ch.y_zero = get_s8(&more[1], "y_zero");
    get_act(&more[2], &p.ch.act_min, &p.ch.act_max);
    p.groups = (uint16_t)ranged(more[4].u_int, 1, MICA_MAX_DIM, "groups");
    check(mica_conv2d_s8_check(&p, &what), &what);
    p.x = in(args[ARG_x].u_obj, "x", mica_conv2d_s8_x_bytes(&p), &raws[0]);
    get_channels(args, mica_conv2d_s8_weights_bytes(&p), mica_conv2d_s8_channels(&p), &p.ch, raws);
    p.y = out(args[ARG_out].u_obj, mica_conv2d_s8_y_bytes(&p), raws, MP_ARRAY_SIZE(raws), 0);
    CHECK_CONSTANTS(mica_conv2d_s8, &p);
    MICA_CONV2D_S8(&p, 0, mica_conv2d_s8_rows(&p), NULL, 0);
    return args[ARG_out].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_conv2d_obj, 0, raw_conv2d);
#endif

#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8
static mp_obj_t raw_depthwise_conv2d(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = {
        ARGS_WEIGHTS, ARGS_WINDOW, ARG_KW_INT(x_zero, 0), ARG_KW_INT(y_zero, 0), ARGS_ACT,
    };
    PARSE(allowed);
    const mp_arg_val_t *more = &args[ARG_rest + 6];
    const char *what = NULL;
    raw_t raws[5];
    mica_depthwise_conv2d_s8_t p = { 0 };
    memset(&p, 0, sizeof(p));
    get_window(&args[ARG_rest], &p.win);
    p.x_zero = get_s8(&more[0], "x_zero");
    p.ch.y_zero = get_s8(&more[1], "y_zero");
    get_act(&more[2], &p.ch.act_min, &p.ch.act_max);
    check(mica_depthwise_conv2d_s8_check(&p, &what), &what);
    p.x = in(args[ARG_x].u_obj, "x", mica_depthwise_conv2d_s8_x_bytes(&p), &raws[0]);
    get_channels(args, mica_depthwise_conv2d_s8_weights_bytes(&p), mica_depthwise_conv2d_s8_channels(&p), &p.ch, raws);
    p.y = out(args[ARG_out].u_obj, mica_depthwise_conv2d_s8_y_bytes(&p), raws, MP_ARRAY_SIZE(raws), 0);
    CHECK_CONSTANTS(mica_depthwise_conv2d_s8, &p);
    MICA_DEPTHWISE_CONV2D_S8(&p, 0, mica_depthwise_conv2d_s8_rows(&p), NULL, 0);
    return args[ARG_out].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_depthwise_conv2d_obj, 0, raw_depthwise_conv2d);
#endif

// ---- Pools ----

#ifndef MICA_WITHOUT_MAX_POOL2D_S8
static mp_obj_t raw_max_pool2d(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = { ARG_OBJ(x), ARG_OBJ(out), ARGS_WINDOW, ARGS_ACT };
    PARSE(allowed);
    const char *what = NULL;
    raw_t raw;
    mica_max_pool2d_s8_t p;
    memset(&p, 0, sizeof(p));
    get_window(&args[2], &p.win);
    get_act(&args[8], &p.act_min, &p.act_max);
    check(mica_max_pool2d_s8_check(&p, &what), &what);
    p.x = in(args[0].u_obj, "x", mica_max_pool2d_s8_x_bytes(&p), &raw);
    p.y = out(args[1].u_obj, mica_max_pool2d_s8_y_bytes(&p), &raw, 1, 0);
    MICA_MAX_POOL2D_S8(&p, 0, mica_max_pool2d_s8_rows(&p), NULL, 0);
    return args[1].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_max_pool2d_obj, 0, raw_max_pool2d);
#endif

#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8
static mp_obj_t raw_average_pool2d(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = {
        ARG_OBJ(x), ARG_OBJ(mult), ARG_OBJ(shift), ARG_OBJ(out), ARGS_WINDOW, ARG_KW_INT(x_zero, 0),
        ARG_KW_INT(y_zero, 0), ARGS_ACT, ARG_KW_OBJ(pad_end), ARG_KW_INT(count_include_pad, 0),
    };
    PARSE(allowed);
    const mp_arg_val_t *more = &args[4 + 6];
    const char *what = NULL;
    raw_t raws[3];
    mica_average_pool2d_s8_t p;
    memset(&p, 0, sizeof(p));
    get_window(&args[4], &p.win);
    p.x_zero = get_s8(&more[0], "x_zero");
    p.y_zero = get_s8(&more[1], "y_zero");
    get_act(&more[2], &p.act_min, &p.act_max);
    get_pair(more[4].u_obj, "pad_end", 0, &p.pad_bottom, &p.pad_right);
    p.count_include_pad = more[5].u_int != 0;
    size_t entries = get_raw(args[1].u_obj, "mult", MP_BUFFER_READ, 4).bytes / 4;
    p.entries = (uint32_t)MIN(entries, (size_t)UINT32_MAX);
    check(mica_average_pool2d_s8_check(&p, &what), &what);
    p.x = in(args[0].u_obj, "x", mica_average_pool2d_s8_x_bytes(&p), &raws[0]);
    p.mult = in_words(args[1].u_obj, "mult", p.entries, &raws[1]);
    p.shift = in(args[2].u_obj, "shift", p.entries, &raws[2]);
    p.y = out(args[3].u_obj, mica_average_pool2d_s8_y_bytes(&p), raws, MP_ARRAY_SIZE(raws), 0);
    check(mica_average_pool2d_s8_check_constants(&p, &what), &what);
    MICA_AVERAGE_POOL2D_S8(&p, 0, mica_average_pool2d_s8_rows(&p), NULL, 0);
    return args[3].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_average_pool2d_obj, 0, raw_average_pool2d);
#endif

// ---- The rest ----

#ifndef MICA_WITHOUT_ADD_S8
static mp_obj_t raw_add(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    enum { ARG_a, ARG_b, ARG_y, ARG_mult_a, ARG_mult_b, ARG_offset, ARG_sh, ARG_y_zero, ARG_act_min, ARG_act_max,
           ARG_a_shape, ARG_b_shape, ARG_out_shape };
    static const mp_arg_t allowed[] = {
        ARG_OBJ(a), ARG_OBJ(b), ARG_OBJ(out), ARG_KW_NEED(mult_a), ARG_KW_NEED(mult_b), ARG_KW_NEED(offset),
        ARG_KW_NEED(shift), ARG_KW_INT(y_zero, 0), ARGS_ACT, ARG_KW(a_shape), ARG_KW(b_shape), ARG_KW(out_shape),
    };
    PARSE(allowed);
    const char *what = NULL;
    raw_t raws[2];
    mica_add_s8_t p;
    memset(&p, 0, sizeof(p));
    p.mult_a = ranged(args[ARG_mult_a].u_int, INT32_MIN, INT32_MAX, "mult_a");
    p.mult_b = ranged(args[ARG_mult_b].u_int, INT32_MIN, INT32_MAX, "mult_b");
    p.offset = ranged(args[ARG_offset].u_int, INT32_MIN, INT32_MAX, "offset");
    p.shift = (uint8_t)ranged(args[ARG_sh].u_int, 0, 30, "shift");
    p.y_zero = get_s8(&args[ARG_y_zero], "y_zero");
    get_act(&args[ARG_act_min], &p.act_min, &p.act_max);
    uint32_t a[MICA_MAX_RANK], b[MICA_MAX_RANK], y[MICA_MAX_RANK];
    uint32_t a_rank = get_shape(args[ARG_a_shape].u_obj, "a_shape", a);
    uint32_t b_rank = get_shape(args[ARG_b_shape].u_obj, "b_shape", b);
    uint32_t y_rank = get_shape(args[ARG_out_shape].u_obj, "out_shape", y);
    check(mica_broadcast_shapes(&p.shape, a, a_rank, b, b_rank, y, y_rank, &what), &what);
    check(mica_add_s8_check(&p, &what), &what);
    p.a = in(args[ARG_a].u_obj, "a", mica_broadcast_a_size(&p.shape), &raws[0]);
    p.b = in(args[ARG_b].u_obj, "b", mica_broadcast_b_size(&p.shape), &raws[1]);
    p.y = out(args[ARG_y].u_obj, mica_broadcast_y_size(&p.shape), raws, 2, 2);
    MICA_ADD_S8(&p, 0, mica_add_s8_rows(&p), NULL, 0);
    return args[ARG_y].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_add_obj, 0, raw_add);
#endif

#ifndef MICA_WITHOUT_SOFTMAX_S8
static mp_obj_t raw_softmax(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = { ARG_OBJ(x), ARG_OBJ(table), ARG_OBJ(out), ARG_KW_INT(axis, 0) };
    PARSE(allowed);
    const char *what = NULL;
    raw_t raws[2];
    mica_softmax_s8_t p;
    memset(&p, 0, sizeof(p));
    size_t n = get_raw(args[0].u_obj, "x", MP_BUFFER_READ, 1).bytes;
    size_t axis = args[3].u_int == 0 ? n : (size_t)ranged(args[3].u_int, 1, MICA_MAX_DIM, "axis");
    if (n == 0 || axis > MICA_MAX_DIM || n > INT32_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("axis: not in 1 to 65535"));
    }
    p.axis = (uint16_t)axis;
    p.rows = (uint32_t)(n / axis);
    p.y_zero = -128;
    check(mica_softmax_s8_check(&p, &what), &what);
    p.x = in(args[0].u_obj, "x", mica_softmax_s8_x_bytes(&p), &raws[0]);
    p.table = in_words(args[1].u_obj, "table", 256, &raws[1]);
    p.y = out(args[2].u_obj, mica_softmax_s8_x_bytes(&p), raws, 2, 1);
    check(mica_softmax_s8_check_constants(&p, &what), &what);
    MICA_SOFTMAX_S8(&p, 0, mica_softmax_s8_rows(&p), NULL, 0);
    return args[2].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_softmax_obj, 0, raw_softmax);
#endif

#ifndef MICA_WITHOUT_LUT_S8
static mp_obj_t raw_lut(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = { ARG_OBJ(x), ARG_OBJ(table), ARG_OBJ(out) };
    PARSE(allowed);
    const char *what = NULL;
    raw_t raws[2];
    mica_lut_s8_t p;
    memset(&p, 0, sizeof(p));
    size_t n = get_raw(args[0].u_obj, "x", MP_BUFFER_READ, 1).bytes;
    p.n = (uint32_t)MIN(n, (size_t)UINT32_MAX);
    check(mica_lut_s8_check(&p, &what), &what);
    p.x = in(args[0].u_obj, "x", p.n, &raws[0]);
    p.table = in(args[1].u_obj, "table", 256, &raws[1]);
    p.y = out(args[2].u_obj, p.n, raws, 2, 1);
    MICA_LUT_S8(&p, 0, mica_lut_s8_rows(&p), NULL, 0);
    return args[2].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_lut_obj, 0, raw_lut);
#endif

#ifndef MICA_WITHOUT_TRANSPOSE_S8
static mp_obj_t raw_transpose(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    static const mp_arg_t allowed[] = { ARG_OBJ(x), ARG_OBJ(out), ARG_KW(x_shape), ARG_KW(perm) };
    PARSE(allowed);
    const char *what = NULL;
    raw_t raw;
    mica_transpose_s8_t p;
    memset(&p, 0, sizeof(p));
    uint32_t dims[MICA_MAX_RANK];
    uint16_t perm[MICA_MAX_RANK];
    uint32_t rank = get_shape(args[2].u_obj, "x_shape", dims);
    get_u16s(args[3].u_obj, "perm", rank, perm);
    p.rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        if (perm[i] >= rank) { // check() sees only y's dimensions, which come from here
            mp_raise_ValueError(MP_ERROR_TEXT("perm: not a permutation"));
        }
        p.perm[i] = (uint8_t)perm[i];
        p.y_dims[i] = (uint16_t)dims[perm[i]];
    }
    check(mica_transpose_s8_check(&p, &what), &what);
    p.x = in(args[0].u_obj, "x", mica_transpose_s8_x_bytes(&p), &raw);
    p.y = out(args[1].u_obj, mica_transpose_s8_x_bytes(&p), &raw, 1, 0);
    MICA_TRANSPOSE_S8(&p, 0, mica_transpose_s8_rows(&p), NULL, 0);
    return args[1].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(mp_mica_raw_transpose_obj, 0, raw_transpose);
#endif
#endif

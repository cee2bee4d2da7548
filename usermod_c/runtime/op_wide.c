#include "op.h"

#ifndef MICA_WITHOUT_CONV2D_S16
MICA_LOAD_ROWS_OF(conv2d_s16, conv2d_s16, CONV2D_S16) {
    MICA_LOAD_ONE(r, p);
    mica_load_window(r, &p->win);
    p->groups = (uint16_t)mica_load_param(r, MICA_CONV2D_S16_PARAM_GROUPS, 1, MICA_MAX_DIM);
    mica_load_wide(r, MICA_CONV2D_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_conv2d_s16_check(p, &r->what))) {
        const size_t n = p->win.out_c;
        p->weights = mica_load_blob(r, MICA_CONV2D_S16_BLOB_WEIGHTS, n * mica_conv2d_s16_reduction(p), MICA_ALIGN);
        p->bias = mica_load_blob(r, MICA_CONV2D_S16_BLOB_BIAS, n * 4, MICA_BLOB_ALIGN);
        p->mult = mica_load_blob(r, MICA_CONV2D_S16_BLOB_MULT, n * 4, MICA_BLOB_ALIGN);
        p->shift = mica_load_blob(r, MICA_CONV2D_S16_BLOB_SHIFT, n, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_conv2d_s16_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_POOL_S16
MICA_LOAD_ROWS_OF(pool_s16, pool_s16, POOL_S16) {
    MICA_LOAD_ONE(r, p);
    mica_load_window(r, &p->win);
    p->largest = (uint8_t)mica_load_param(r, MICA_POOL_S16_PARAM_LARGEST, 0, 1);
    mica_load_wide(r, MICA_POOL_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    p->entries = mica_load_blob_bytes(r, MICA_POOL_S16_BLOB_SHIFT);
    if (mica_load_ok(r) && mica_load_checked(r, mica_pool_s16_check(p, &r->what))) {
        p->mult = mica_load_blob(r, MICA_POOL_S16_BLOB_MULT, (size_t)p->entries * 4, MICA_BLOB_ALIGN);
        p->shift = mica_load_blob(r, MICA_POOL_S16_BLOB_SHIFT, p->entries, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_pool_s16_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_BINARY_S16
MICA_LOAD_ROWS_OF(binary_s16, binary_s16, BINARY_S16) {
    MICA_LOAD_TWO(r, p);
    p->mult_a = mica_load_param(r, MICA_BINARY_S16_PARAM_MULT_A, INT32_MIN, INT32_MAX);
    p->mult_b = mica_load_param(r, MICA_BINARY_S16_PARAM_MULT_B, INT32_MIN, INT32_MAX);
    p->mult_ab = mica_load_param(r, MICA_BINARY_S16_PARAM_MULT_AB, INT32_MIN, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_BINARY_S16_PARAM_SHIFT, 1, 62);
    mica_load_wide(r, MICA_BINARY_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    MICA_LOAD_END(r, mica_binary_s16_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_LUT_S16
MICA_LOAD_ROWS_OF(lut_s16, lut_s16, LUT_S16) {
    MICA_LOAD_ONE(r, p);
    p->n = r->y.bytes / 2;
    p->bits = (uint8_t)mica_load_param(r, MICA_LUT_S16_PARAM_BITS, 1, MICA_LUT_S16_MOST_BITS);
    mica_load_wide(r, 0, NULL, NULL);
    p->table = mica_load_blob(r, MICA_LUT_S16_BLOB_TABLE, ((1u << p->bits) + 1) * 2, MICA_BLOB_ALIGN);
    mica_load_same_shape(r);
    MICA_LOAD_END(r, mica_lut_s16_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_SOFTMAX_S16
MICA_LOAD_ROWS_OF(softmax_s16, softmax_s16, SOFTMAX_S16) {
    MICA_LOAD_ONE(r, p);
    const mica_tensor_t *y = &r->y;
    mica_load_wide(r, 0, NULL, NULL);
    const bool sound = y->rank >= 1 && y->scale >= 1.0f / 32768 && y->scale <= 1.0f / 32768;
    if (mica_load_same_shape(r) && mica_load_require(r, sound, MICA_ERR_SHAPE,
        "softmax of a single element, or on a scale other than 2^-15")) {
        p->axis = (uint16_t)y->dims[y->rank - 1];
        p->rows = y->bytes / 2 / p->axis;
        p->table = mica_load_blob(r, MICA_SOFTMAX_S16_BLOB_EXPONENTIALS, 512 * 4, MICA_BLOB_ALIGN);
        if (mica_load_ok(r) && mica_load_checked(r, mica_softmax_s16_check(p, &r->what))) {
            mica_load_checked(r, mica_softmax_s16_check_constants(p, &r->what));
        }
    }
}
#endif

#ifndef MICA_WITHOUT_WIDEN_S16
MICA_LOAD_ROWS_OF(widen_s16, widen_s16, WIDEN_S16) {
    MICA_LOAD_ONE(r, p);
    p->n = r->x[0].bytes;
    p->x_zero = (int8_t)r->x[0].zero_point;
    mica_load_requant(r, MICA_WIDEN_S16_PARAM_MULT, &p->mult, &p->shift);
    mica_load_wide(r, MICA_WIDEN_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_require(r, p->n == r->y.bytes / 2, MICA_ERR_SHAPE, "input and output differ in size");
    MICA_LOAD_END(r, mica_widen_s16_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_NARROW_S8
MICA_LOAD_ROWS(narrow, NARROW) {
    MICA_LOAD_ONE(r, p);
    p->n = r->y.bytes;
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_NARROW_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_NARROW_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_wide(r, 0, NULL, NULL);
    const bool sound = p->n == r->x[0].bytes / 2 && p->act_min <= p->act_max;
    mica_load_require(r, sound, MICA_ERR_SHAPE, "input and output differ in size, or act_min is above act_max");
    MICA_LOAD_END(r, mica_narrow_s8_check(p, &r->what));
}
#endif

#include "op.h"

#ifndef MICA_WITHOUT_SOFTMAX_S8
MICA_LOAD_ROWS(softmax, SOFTMAX) {
    MICA_LOAD_ONE(r, p);
    const mica_tensor_t *y = &r->y;
    if (!mica_load_same_shape(r)
        || !mica_load_require(r, y->rank >= 1, MICA_ERR_SHAPE, "softmax of a single element")) {
        return;
    }
    p->y_zero = (int8_t)y->zero_point;
    p->wide = !(y->zero_point == -128 && y->scale >= 1.0f / 256 && y->scale <= 1.0f / 256);
    p->axis = (uint16_t)y->dims[y->rank - 1];
    p->rows = y->bytes / p->axis;
    p->table = mica_load_blob(r, MICA_SOFTMAX_S8_BLOB_TABLE, p->wide ? 512 * 4 : 256 * 4, MICA_BLOB_ALIGN);
    mica_load_checked(r, mica_softmax_s8_check(p, &r->what));
    MICA_LOAD_END(r, mica_softmax_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_LOG_SOFTMAX_S8
MICA_LOAD_ROWS(log_softmax, LOG_SOFTMAX) {
    MICA_LOAD_ONE(r, p);
    p->y_zero = (int8_t)r->y.zero_point;
    p->sum = (uint8_t)mica_load_param(r, MICA_LOG_SOFTMAX_S8_PARAM_SUM, 0, 1);
    p->mult = mica_load_param(r, MICA_LOG_SOFTMAX_S8_PARAM_MULT, INT32_MIN, INT32_MAX);
    p->mult_log = mica_load_param(r, MICA_LOG_SOFTMAX_S8_PARAM_MULT_LOG, INT32_MIN, INT32_MAX);
    p->offset = mica_load_param(r, MICA_LOG_SOFTMAX_S8_PARAM_OFFSET, INT32_MIN, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_LOG_SOFTMAX_S8_PARAM_SHIFT, 0, 30);
    mica_load_act(r, MICA_LOG_SOFTMAX_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    const mica_tensor_t *x = &r->x[0];
    if (!mica_load_require(r, x->rank >= 1, MICA_ERR_SHAPE, "the softmax of a single element")
        || (!p->sum && !mica_load_same_shape(r))) {
        return;
    }
    p->axis = (uint16_t)x->dims[x->rank - 1];
    p->rows = x->bytes / p->axis;
    if (mica_load_checked(r, mica_log_softmax_s8_check(p, &r->what))
        && mica_load_require(r, mica_log_softmax_s8_y_bytes(p) == r->y.bytes, MICA_ERR_SHAPE,
        "the output has another size")) {
        p->table = mica_load_blob(r, MICA_LOG_SOFTMAX_S8_BLOB_TABLE, 256 * 4, MICA_BLOB_ALIGN);
        MICA_LOAD_END(r, mica_log_softmax_s8_check_constants(p, &r->what));
    }
}
#endif

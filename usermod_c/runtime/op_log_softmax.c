#include "op.h"
#ifndef MICA_WITHOUT_LOG_SOFTMAX_S8

MICA_RUN_ROWS(log_softmax, LOG_SOFTMAX)

mica_status_t mica_load_log_softmax(mica_step_record_t *r, mica_step_t *s) {
    mica_log_softmax_s8_t *p = &s->p.log_softmax;
    MICA_LOAD_BEGIN(r, s, p);
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
        return r->err->status;
    }
    p->axis = (uint16_t)x->dims[x->rank - 1];
    p->rows = x->bytes / p->axis;
    if (mica_load_checked(r, mica_log_softmax_s8_check(p, &r->what))
        && mica_load_require(r, mica_log_softmax_s8_y_bytes(p) == r->y.bytes, MICA_ERR_SHAPE,
        "the output has another size")) {
        p->table = mica_load_blob(r, MICA_LOG_SOFTMAX_S8_BLOB_TABLE, 256 * 4, MICA_BLOB_ALIGN);
        if (mica_load_ok(r)) {
            mica_load_checked(r, mica_log_softmax_s8_check_constants(p, &r->what));
        }
    }
    return r->err->status;
}

#endif

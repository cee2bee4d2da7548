#include "op.h"
#ifndef MICA_WITHOUT_REDUCE_S8

MICA_RUN_ROWS(reduce, REDUCE)

mica_status_t mica_load_reduce(mica_step_record_t *r, mica_step_t *s) {
    mica_reduce_s8_t *p = &s->p.reduce;
    MICA_LOAD_BEGIN(r, s, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    p->y_zero = (int8_t)r->y.zero_point;
    int32_t rank = r->x[0].rank;
    int32_t axis = mica_load_param(r, MICA_REDUCE_S8_PARAM_AXIS, 0, rank);
    int32_t axes = mica_load_param(r, MICA_REDUCE_S8_PARAM_AXES, 0, rank - axis);
    p->mode = (uint8_t)mica_load_param(r, MICA_REDUCE_S8_PARAM_MODE, 0, MICA_REDUCE_LOG);
    mica_load_requant(r, MICA_REDUCE_S8_PARAM_MULT, &p->mult, &p->shift);
    p->bias = mica_load_param(r, MICA_REDUCE_S8_PARAM_BIAS, INT32_MIN, INT32_MAX);
    mica_load_act(r, MICA_REDUCE_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (!mica_load_ok(r)) {
        return r->err->status;
    }
    mica_load_split(r, (uint32_t)axis, (uint32_t)axes, &p->outer, &p->n, &p->inner);
    if (mica_load_checked(r, mica_reduce_s8_check(p, &r->what))
        && mica_load_require(r, mica_reduce_s8_rows(p) == r->y.bytes, MICA_ERR_SHAPE, "the output has another size")
        && (p->mode == MICA_REDUCE_MAX || p->mode == MICA_REDUCE_MIN)) {
        mica_load_same_scale(r);
    }
    return r->err->status;
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_ADD_S8

MICA_RUN_ROWS(add, ADD)

mica_status_t mica_load_add(mica_step_record_t *r, mica_step_t *s) {
    mica_add_s8_t *p = &s->p.add;
    MICA_LOAD_TWO(r, s, p);
    p->y_zero = (int8_t)r->y.zero_point;
    p->mult_a = mica_load_param(r, MICA_ADD_S8_PARAM_MULT_A, INT32_MIN, INT32_MAX);
    p->mult_b = mica_load_param(r, MICA_ADD_S8_PARAM_MULT_B, INT32_MIN, INT32_MAX);
    p->offset = mica_load_param(r, MICA_ADD_S8_PARAM_OFFSET, INT32_MIN, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_ADD_S8_PARAM_SHIFT, 0, 30);
    mica_load_act(r, MICA_ADD_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    return MICA_LOAD_END(r, mica_add_s8_check(p, &r->what));
}

#endif

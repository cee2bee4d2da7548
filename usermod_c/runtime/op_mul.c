#include "op.h"
#ifndef MICA_WITHOUT_MUL_S8

MICA_RUN_ROWS(mul, MUL)

mica_status_t mica_load_mul(mica_step_record_t *r, mica_step_t *s) {
    mica_mul_s8_t *p = &s->p.mul;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *a = &r->x[0], *b = &r->x[1];
    p->a = a->data;
    p->b = b->data;
    p->a_zero = (int8_t)a->zero_point;
    p->b_zero = (int8_t)b->zero_point;
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_MUL_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MUL_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    return MICA_LOAD_END(r, mica_mul_s8_check(p, &r->what));
}

#endif

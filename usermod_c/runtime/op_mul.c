#include "op.h"
#ifndef MICA_WITHOUT_MUL_S8

MICA_RUN_ROWS(mul, MUL)

mica_status_t mica_load_mul(mica_step_record_t *r, mica_step_t *s) {
    mica_mul_s8_t *p = &s->p.mul;
    MICA_LOAD_TWO(r, s, p);
    MICA_LOAD_ZEROS(r, p);
    mica_load_requant(r, MICA_MUL_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MUL_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    return MICA_LOAD_END(r, mica_mul_s8_check(p, &r->what));
}

#endif

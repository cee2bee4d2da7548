#include "op.h"
#ifndef MICA_WITHOUT_DIV_S8

MICA_RUN_ROWS(div, DIV)

mica_status_t mica_load_div(mica_step_record_t *r, mica_step_t *s) {
    mica_div_s8_t *p = &s->p.div;
    MICA_LOAD_TWO(r, s, p);
    MICA_LOAD_ZEROS(r, p);
    p->factor = (uint32_t)mica_load_param(r, MICA_DIV_S8_PARAM_FACTOR, 0, 1 << 21);
    p->shift = (uint8_t)mica_load_param(r, MICA_DIV_S8_PARAM_SHIFT, 0, 22);
    mica_load_act(r, MICA_DIV_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    return MICA_LOAD_END(r, mica_div_s8_check(p, &r->what));
}

#endif

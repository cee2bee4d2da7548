#include "op.h"
#ifndef MICA_WITHOUT_DIV_S8

MICA_RUN_ROWS(div, DIV)

mica_status_t mica_load_div(mica_step_record_t *r, mica_step_t *s) {
    mica_div_s8_t *p = &s->p.div;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *a = &r->x[0], *b = &r->x[1];
    p->a = a->data;
    p->b = b->data;
    p->a_zero = (int8_t)a->zero_point;
    p->b_zero = (int8_t)b->zero_point;
    p->y_zero = (int8_t)r->y.zero_point;
    p->factor = (uint32_t)mica_load_param(r, MICA_DIV_S8_PARAM_FACTOR, 0, 1 << 21);
    p->shift = (uint8_t)mica_load_param(r, MICA_DIV_S8_PARAM_SHIFT, 0, 22);
    mica_load_act(r, MICA_DIV_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    return MICA_LOAD_END(r, mica_div_s8_check(p, &r->what));
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_NARROW_S8

MICA_RUN_ROWS(narrow, NARROW)

mica_status_t mica_load_narrow(mica_step_record_t *r, mica_step_t *s) {
    mica_narrow_s8_t *p = &s->p.narrow;
    MICA_LOAD_BEGIN(r, s, p);
    p->n = r->y.bytes;
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_NARROW_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_NARROW_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_wide(r, 0, NULL, NULL);
    const bool sound = p->n == r->x[0].bytes / 2 && p->act_min <= p->act_max;
    if (mica_load_require(r, sound, MICA_ERR_SHAPE, "input and output differ in size, or act_min is above act_max")) {
        mica_load_checked(r, mica_narrow_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_MAX_POOL2D_S8

MICA_RUN_WINDOW(max_pool2d, MAX_POOL2D)

mica_status_t mica_load_max_pool2d(mica_step_record_t *r, mica_step_t *s) {
    mica_max_pool2d_s8_t *p = &s->p.max_pool2d;
    MICA_LOAD_BEGIN(r, s, p);
    mica_load_window(r, &p->win);
    mica_load_act(r, MICA_MAX_POOL2D_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_same_scale(r)) {
        mica_load_checked(r, mica_max_pool2d_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

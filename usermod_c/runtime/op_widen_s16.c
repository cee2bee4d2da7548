#include "op.h"
#ifndef MICA_WITHOUT_WIDEN_S16

MICA_RUN_ROWS_OF(widen_s16, mica_widen_s16_rows, MICA_WIDEN_S16)

mica_status_t mica_load_widen_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_widen_s16_t *p = &s->p.widen_s16;
    s->run = run;
    p->y = r->y.data;
    p->x = r->x[0].data;
    p->n = r->x[0].bytes;
    p->x_zero = (int8_t)r->x[0].zero_point;
    p->mult = mica_load_param(r, MICA_WIDEN_S16_PARAM_MULT, MICA_MULT_MIN, MICA_MULT_MAX);
    p->shift = (int8_t)mica_load_param(r, MICA_WIDEN_S16_PARAM_SHIFT, MICA_SHIFT_MIN, MICA_SHIFT_MAX);
    mica_load_wide(r, MICA_WIDEN_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_require(r, p->n == r->y.bytes / 2, MICA_ERR_SHAPE, "input and output differ in size")) {
        mica_load_checked(r, mica_widen_s16_check(p, &r->what));
    }
    return r->err->status;
}

#endif

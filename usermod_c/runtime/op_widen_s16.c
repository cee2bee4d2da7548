#include "op.h"
#ifndef MICA_WITHOUT_WIDEN_S16

MICA_RUN_ROWS_OF(widen_s16, mica_widen_s16_rows, MICA_WIDEN_S16)

mica_status_t mica_load_widen_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_widen_s16_t *p = &s->p.widen_s16;
    MICA_LOAD_BEGIN(r, s, p);
    p->n = r->x[0].bytes;
    p->x_zero = (int8_t)r->x[0].zero_point;
    mica_load_requant(r, MICA_WIDEN_S16_PARAM_MULT, &p->mult, &p->shift);
    mica_load_wide(r, MICA_WIDEN_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_require(r, p->n == r->y.bytes / 2, MICA_ERR_SHAPE, "input and output differ in size")) {
        mica_load_checked(r, mica_widen_s16_check(p, &r->what));
    }
    return r->err->status;
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_HARDMAX_S8

MICA_RUN_ROWS(hardmax, HARDMAX)

mica_status_t mica_load_hardmax(mica_step_record_t *r, mica_step_t *s) {
    mica_hardmax_s8_t *p = &s->p.hardmax;
    s->run = run;
    p->y = r->y.data;
    p->x = r->x[0].data;
    if (!mica_load_same_shape(r) || !mica_load_require(r, r->y.rank >= 1, MICA_ERR_SHAPE,
        "hardmax of a single element")) {
        return r->err->status;
    }
    p->y_zero = (int8_t)r->y.zero_point;
    p->one = (int8_t)mica_load_param(r, MICA_HARDMAX_S8_PARAM_ONE, -128, 127);
    p->axis = (uint16_t)r->y.dims[r->y.rank - 1];
    p->rows = r->y.bytes / p->axis;
    mica_load_checked(r, mica_hardmax_s8_check(p, &r->what));
    return r->err->status;
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_NEAREST_S8

MICA_RUN_ROWS(nearest, NEAREST)

mica_status_t mica_load_nearest(mica_step_record_t *r, mica_step_t *s) {
    mica_nearest_s8_t *p = &s->p.nearest;
    s->run = run;
    p->y = r->y.data;
    p->x = r->x[0].data;
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return r->err->status;
    }
    p->k = (uint16_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_K, 1, UINT16_MAX);
    p->kind = (uint8_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_KIND, 0, MICA_NEAREST_BY_VALUE);
    p->y_zero = (int8_t)r->y.zero_point;
    p->mult = mica_load_param(r, MICA_NEAREST_S8_PARAM_MULT, MICA_MULT_MIN, MICA_MULT_MAX);
    p->shift = (int8_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_SHIFT, MICA_SHIFT_MIN, MICA_SHIFT_MAX);
    mica_load_act(r, MICA_NEAREST_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_nearest_s8_check(p, &r->what))) {
        p->target = mica_load_blob(r, MICA_NEAREST_S8_BLOB_TARGET, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
        p->value = mica_load_blob(r, MICA_NEAREST_S8_BLOB_VALUE, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
    }
    if (mica_load_ok(r)) {
        mica_load_checked(r, mica_nearest_s8_check_constants(p, &r->what));
    }
    return r->err->status;
}

#endif

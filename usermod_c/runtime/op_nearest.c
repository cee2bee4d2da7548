#include "op.h"
#ifndef MICA_WITHOUT_NEAREST_S8

MICA_RUN_ROWS(nearest, NEAREST)

mica_status_t mica_load_nearest(mica_step_record_t *r, mica_step_t *s) {
    mica_nearest_s8_t *p = &s->p.nearest;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return r->err->status;
    }
    p->k = (uint16_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_K, 1, UINT16_MAX);
    p->kind = (uint8_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_KIND, 0, MICA_NEAREST_REACH);
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_NEAREST_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_NEAREST_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_nearest_s8_check(p, &r->what))) {
        p->target = mica_load_blob(r, MICA_NEAREST_S8_BLOB_TARGET, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
        p->value = mica_load_blob(r, MICA_NEAREST_S8_BLOB_VALUE, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
    }
    return MICA_LOAD_END(r, mica_nearest_s8_check_constants(p, &r->what));
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_CONV2D_S16

MICA_RUN_ROWS_OF(conv2d_s16, mica_conv2d_s16_rows, MICA_CONV2D_S16)

mica_status_t mica_load_conv2d_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_conv2d_s16_t *p = &s->p.conv2d_s16;
    MICA_LOAD_BEGIN(r, s, p);
    mica_load_window(r, &p->win);
    p->groups = (uint16_t)mica_load_param(r, MICA_CONV2D_S16_PARAM_GROUPS, 1, MICA_MAX_DIM);
    mica_load_wide(r, MICA_CONV2D_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_conv2d_s16_check(p, &r->what))) {
        const size_t n = p->win.out_c;
        p->weights = mica_load_blob(r, MICA_CONV2D_S16_BLOB_WEIGHTS, n * mica_conv2d_s16_reduction(p), MICA_ALIGN);
        p->bias = mica_load_blob(r, MICA_CONV2D_S16_BLOB_BIAS, n * 4, MICA_BLOB_ALIGN);
        p->mult = mica_load_blob(r, MICA_CONV2D_S16_BLOB_MULT, n * 4, MICA_BLOB_ALIGN);
        p->shift = mica_load_blob(r, MICA_CONV2D_S16_BLOB_SHIFT, n, MICA_BLOB_ALIGN);
    }
    return MICA_LOAD_END(r, mica_conv2d_s16_check_constants(p, &r->what));
}

#endif

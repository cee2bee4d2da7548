#include "op.h"
#ifndef MICA_WITHOUT_PAD_S8

MICA_RUN_ROWS(pad, PAD)

mica_status_t mica_load_pad(mica_step_record_t *r, mica_step_t *s) {
    mica_pad_s8_t *p = &s->p.pad;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    p->rank = y->rank;
    p->mode = (uint8_t)mica_load_param(r, MICA_PAD_S8_PARAM_MODE, MICA_PAD_CONSTANT, MICA_PAD_WRAP);
    p->value = (int8_t)mica_load_param(r, MICA_PAD_S8_PARAM_VALUE, -128, 127);
    for (uint32_t i = 0; i < y->rank; ++i) {
        p->x_dims[i] = (uint16_t)x->dims[i];
        p->y_dims[i] = (uint16_t)y->dims[i];
        p->begin[i] = (uint16_t)mica_load_param(r, MICA_PAD_S8_PARAM_BEGIN_0 + i, 0, MICA_MAX_DIM);
    }
    if (mica_load_require(r, x->rank == y->rank, MICA_ERR_SHAPE, "input and output differ in rank")
        && mica_load_same_scale(r)) {
        mica_load_checked(r, mica_pad_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

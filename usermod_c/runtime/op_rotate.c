#include "op.h"
#ifndef MICA_WITHOUT_ROTATE_S8

MICA_RUN_ROWS(rotate, ROTATE)

mica_status_t mica_load_rotate(mica_step_record_t *r, mica_step_t *s) {
    mica_rotate_s8_t *p = &s->p.rotate;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *cosines = &r->x[1], *sines = &r->x[2], *y = &r->y;
    p->x = x->data;
    p->c = cosines->data;
    p->s = sines->data;
    bool alike = x->rank >= 1 && x->rank == y->rank && cosines->rank >= 1 && cosines->rank == sines->rank;
    for (uint32_t i = 0; alike && i < x->rank; ++i) {
        alike = x->dims[i] == y->dims[i];
    }
    for (uint32_t i = 0; alike && i < cosines->rank; ++i) {
        alike = cosines->dims[i] == sines->dims[i];
    }
    alike = alike && x->dims[x->rank - 1] == 2 * (uint64_t)cosines->dims[cosines->rank - 1];
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "rows, cosines, sines and output do not go together")) {
        return r->err->status;
    }
    p->half = cosines->dims[cosines->rank - 1];
    p->rows = 1;
    for (uint32_t i = 0; i + 1 < x->rank; ++i) {
        p->rows *= x->dims[i];
    }
    p->turns = 1;
    for (uint32_t i = 0; i + 1 < cosines->rank; ++i) {
        p->turns *= cosines->dims[i];
    }
    p->x_zero = (int8_t)x->zero_point;
    p->y_zero = (int8_t)y->zero_point;
    p->inner = (uint32_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_INNER, 1, INT32_MAX);
    p->c_zero = (int8_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_C_ZERO, cosines->zero_point, cosines->zero_point);
    p->s_zero = (int8_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_S_ZERO, sines->zero_point, sines->zero_point);
    p->mult_c = mica_load_param(r, MICA_ROTATE_S8_PARAM_MULT_C, 0, INT32_MAX);
    p->mult_s = mica_load_param(r, MICA_ROTATE_S8_PARAM_MULT_S, 0, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_SHIFT, 1, 30);
    mica_load_act(r, MICA_ROTATE_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    return MICA_LOAD_END(r, mica_rotate_s8_check(p, &r->what));
}

#endif

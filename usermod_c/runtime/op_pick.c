#include "op.h"
#ifndef MICA_WITHOUT_PICK_S8

MICA_RUN_ROWS(pick, PICK)

mica_status_t mica_load_pick(mica_step_record_t *r, mica_step_t *s) {
    mica_pick_s8_t *p = &s->p.pick;
    s->run = run;
    const mica_tensor_t *x = &r->x[0], *at = &r->x[1], *y = &r->y;
    p->y = y->data;
    p->x = x->data;
    p->places = (const int32_t *)at->data;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_PICK_S8_PARAM_AXIS, 0, x->rank - 1);
    bool alike = x->rank == y->rank && at->rank == y->rank, each = alike, row = alike;
    for (uint32_t i = 0; mica_load_ok(r) && alike && i < y->rank; ++i) {
        each &= at->dims[i] == y->dims[i];
        row &= at->dims[i] == (i > axis ? 1 : y->dims[i]);
        alike = (each || row) && (i == axis || x->dims[i] == y->dims[i]);
    }
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE,
        "input and output differ beside the axis, or the places have another shape") || !mica_load_same_scale(r)) {
        return r->err->status;
    }
    mica_load_split(r, axis, 1, &p->outer, &p->n, &p->inner);
    p->k = y->dims[axis];
    p->step = each;
    mica_load_checked(r, mica_pick_s8_check(p, &r->what));
    return r->err->status;
}

#endif

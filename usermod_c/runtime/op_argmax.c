#include "op.h"
#ifndef MICA_WITHOUT_ARGMAX_S8

MICA_RUN_ROWS(argmax, ARGMAX)

mica_status_t mica_load_argmax(mica_step_record_t *r, mica_step_t *s) {
    mica_argmax_s8_t *p = &s->p.argmax;
    MICA_LOAD_BEGIN(r, s, p);
    int32_t axis = mica_load_param(r, MICA_ARGMAX_S8_PARAM_AXIS, 0, r->x[0].rank - 1);
    p->minimum = (uint8_t)mica_load_param(r, MICA_ARGMAX_S8_PARAM_MINIMUM, 0, 1);
    p->select_last = (uint8_t)mica_load_param(r, MICA_ARGMAX_S8_PARAM_SELECT_LAST, 0, 1);
    if (!mica_load_ok(r)) {
        return r->err->status;
    }
    mica_load_split(r, (uint32_t)axis, 1, &p->outer, &p->n, &p->inner);
    if (mica_load_checked(r, mica_argmax_s8_check(p, &r->what))) {
        mica_load_require(r, mica_argmax_s8_y_bytes(p) == r->y.bytes, MICA_ERR_SHAPE, "the output has another size");
    }
    return r->err->status;
}

#endif

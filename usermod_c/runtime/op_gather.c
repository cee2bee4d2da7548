#include "op.h"
#ifndef MICA_WITHOUT_GATHER_S8

MICA_RUN_ROWS(gather, GATHER)

mica_status_t mica_load_gather(mica_step_record_t *r, mica_step_t *s) {
    mica_gather_s8_t *p = &s->p.gather;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_GATHER_S8_PARAM_AXIS, 0, y->rank - 1);
    bool alike = x->rank == y->rank;
    p->rows = p->inner = 1;
    for (uint32_t i = 0; i < y->rank; ++i) {
        alike = alike && (i == axis || x->dims[i] == y->dims[i]);
        p->rows *= i < axis ? y->dims[i] : 1;
        p->inner *= i > axis ? y->dims[i] : 1;
    }
    p->x_n = (uint16_t)x->dims[axis];
    p->y_n = (uint16_t)y->dims[axis];
    p->indices = mica_load_blob(r, MICA_GATHER_S8_BLOB_INDICES, (size_t)p->y_n * 4, MICA_BLOB_ALIGN);
    if (mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ beside the axis")
        && mica_load_same_scale(r) && mica_load_checked(r, mica_gather_s8_check(p, &r->what))) {
        mica_load_checked(r, mica_gather_s8_check_constants(p, &r->what));
    }
    return r->err->status;
}

#endif

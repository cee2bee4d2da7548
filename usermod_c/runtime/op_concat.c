#include "op.h"
#ifndef MICA_WITHOUT_CONCAT_S8

MICA_RUN_ROWS(concat, CONCAT)

mica_status_t mica_load_concat(mica_step_record_t *r, mica_step_t *s) {
    mica_concat_s8_t *p = &s->p.concat;
    s->run = run;
    p->y = r->y.data;
    p->n = (uint8_t)r->n_inputs;
    const mica_tensor_t *y = &r->y;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_CONCAT_S8_PARAM_AXIS, 0, y->rank - 1);
    uint32_t inner = 1, total = 0;
    p->rows = 1;
    for (uint32_t i = 0; i < y->rank; ++i) {
        p->rows *= i < axis ? y->dims[i] : 1;
        inner *= i > axis ? y->dims[i] : 1;
    }
    bool alike = true;
    for (uint32_t k = 0; k < p->n && mica_load_ok(r); ++k) {
        const mica_tensor_t *x = &r->x[k];
        p->x[k] = x->data;
        p->part[k] = x->dims[axis] * inner;
        total += x->dims[axis];  // at most four times MICA_MAX_DIM
        for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
            alike = alike && (i == axis || x->dims[i] == y->dims[i]);
        }
        alike = alike && x->rank == y->rank;
        mica_load_require(r, x->zero_point == y->zero_point && x->scale >= y->scale && x->scale <= y->scale,
            MICA_ERR_RANGE,
            "an input differs from the output in scale or zero point");
    }
    mica_load_require(r, alike && total == y->dims[axis], MICA_ERR_SHAPE, "the inputs do not make the output");
    mica_load_checked(r, mica_concat_s8_check(p, &r->what));
    return r->err->status;
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_SCATTER_S8

MICA_RUN_ROWS(scatter, SCATTER)

mica_status_t mica_load_scatter(mica_step_record_t *r, mica_step_t *s) {
    mica_scatter_s8_t *p = &s->p.scatter;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *u = &r->x[1], *y = &r->y;
    p->x = x->data;
    p->rows_of = u->data;
    p->index = (const int32_t *)r->x[2].data;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_SCATTER_S8_PARAM_AXIS, 0, y->rank - 1);
    p->circular = mica_load_param(r, MICA_SCATTER_S8_PARAM_CIRCULAR, 0, 1) != 0;
    bool alike = u->rank == y->rank;
    p->rows = p->inner = 1;
    for (uint32_t i = 0; i < y->rank; ++i) {
        alike = alike && (i == axis || u->dims[i] == y->dims[i]);
        p->rows *= i < axis ? y->dims[i] : 1;
        p->inner *= i > axis ? y->dims[i] : 1;
    }
    p->x_n = (uint16_t)x->dims[axis];
    p->r_n = (uint16_t)u->dims[axis];
    uint32_t n = r->x[2].bytes / 4;
    if (!mica_load_same_shape(r) || !mica_load_same_scale(r)
        || !mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ beside the axis")
        || !mica_load_require(r, u->zero_point == y->zero_point && u->scale >= y->scale && u->scale <= y->scale,
        MICA_ERR_RANGE,
            "the rows differ from the output in scale or zero point")
        || !mica_load_require(r, n == 1 || (axis > 0 && n == x->dims[0]), MICA_ERR_SHAPE,
            "the number of indices is neither 1 nor the first dimension")) {
        return r->err->status;
    }
    p->per_index = p->rows / n;
    mica_load_checked(r, mica_scatter_s8_check(p, &r->what));
    return r->err->status;
}

#endif

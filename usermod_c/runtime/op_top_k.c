#include "op.h"
#ifndef MICA_WITHOUT_TOP_K_S8

MICA_RUN_ROWS(top_k, TOP_K)

mica_status_t mica_load_top_k(mica_step_record_t *r, mica_step_t *s) {
    mica_top_k_s8_t *p = &s->p.top_k;
    MICA_LOAD_BEGIN(r, s, p);
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_TOP_K_S8_PARAM_AXIS, 0, r->x[0].rank - 1);
    p->smallest = (uint8_t)mica_load_param(r, MICA_TOP_K_S8_PARAM_SMALLEST, 0, 1);
    bool alike = r->x[0].rank == r->y.rank;
    for (uint32_t i = 0; mica_load_ok(r) && alike && i < r->y.rank; ++i) {
        alike = i == axis || r->x[0].dims[i] == r->y.dims[i];
    }
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ beside the axis")) {
        return r->err->status;
    }
    mica_load_split(r, axis, 1, &p->outer, &p->n, &p->inner);
    p->k = r->y.dims[axis];
    mica_load_checked(r, mica_top_k_s8_check(p, &r->what));
    return r->err->status;
}

#endif

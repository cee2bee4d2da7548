#include "op.h"
#ifndef MICA_WITHOUT_TRANSPOSE_S8

MICA_RUN_ROWS(transpose, TRANSPOSE)

mica_status_t mica_load_transpose(mica_step_record_t *r, mica_step_t *s) {
    mica_transpose_s8_t *p = &s->p.transpose;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    p->rank = y->rank;
    bool alike = x->rank == y->rank;
    for (uint32_t i = 0; i < y->rank; ++i) {
        p->y_dims[i] = (uint16_t)y->dims[i];
        p->perm[i] = (uint8_t)mica_load_param(r, MICA_TRANSPOSE_S8_PARAM_PERM_0 + i, 0, y->rank - 1);
        alike = alike && y->dims[i] == x->dims[p->perm[i]];
    }
    if (mica_load_require(r, alike, MICA_ERR_SHAPE, "the output is not the permuted input")
        && mica_load_same_scale(r)) {
        mica_load_checked(r, mica_transpose_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

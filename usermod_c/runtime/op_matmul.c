#include "op.h"
#ifndef MICA_WITHOUT_MATMUL_S8

MICA_RUN_ROWS(matmul, MATMUL)

mica_status_t mica_load_matmul(mica_step_record_t *r, mica_step_t *s) {
    mica_matmul_s8_t *p = &s->p.matmul;
    const mica_tensor_t *a = &r->x[0], *b = &r->x[1], *y = &r->y;
    MICA_LOAD_TWO(r, s, p);
    MICA_LOAD_ZEROS(r, p);
    p->transpose_b = (uint8_t)mica_load_param(r, MICA_MATMUL_S8_PARAM_TRANSPOSE_B, 0, 1);
    mica_load_requant(r, MICA_MATMUL_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MATMUL_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_status_t shapes = mica_matmul_s8_shapes(p, a->dims, a->rank, b->dims, b->rank, y->dims, y->rank, &r->what);
    if (mica_load_checked(r, shapes)) {
        mica_load_checked(r, mica_matmul_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

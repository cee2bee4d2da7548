#include "op.h"
#ifndef MICA_WITHOUT_BINARY_S16

MICA_RUN_ROWS_OF(binary_s16, mica_binary_s16_rows, MICA_BINARY_S16)

mica_status_t mica_load_binary_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_binary_s16_t *p = &s->p.binary_s16;
    MICA_LOAD_TWO(r, s, p);
    p->mult_a = mica_load_param(r, MICA_BINARY_S16_PARAM_MULT_A, INT32_MIN, INT32_MAX);
    p->mult_b = mica_load_param(r, MICA_BINARY_S16_PARAM_MULT_B, INT32_MIN, INT32_MAX);
    p->mult_ab = mica_load_param(r, MICA_BINARY_S16_PARAM_MULT_AB, INT32_MIN, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_BINARY_S16_PARAM_SHIFT, 1, 62);
    mica_load_wide(r, MICA_BINARY_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    return MICA_LOAD_END(r, mica_binary_s16_check(p, &r->what));
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_MACHINE_S8

MICA_RUN_ROWS(machine, MACHINE)

mica_status_t mica_load_machine(mica_step_record_t *r, mica_step_t *s) {
    mica_machine_s8_t *p = &s->p.machine;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return r->err->status;
    }
    mica_load_requant(r, MICA_MACHINE_S8_PARAM_IN_MULT, &p->in_mult, &p->in_shift);
    p->in_offset = mica_load_param(r, MICA_MACHINE_S8_PARAM_IN_OFFSET, INT32_MIN, INT32_MAX);
    p->down = (uint8_t)mica_load_param(r, MICA_MACHINE_S8_PARAM_DOWN, 0, 40);
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_MACHINE_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MACHINE_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_machine_s8_check(p, &r->what))) {
        p->table = mica_load_blob(r, MICA_MACHINE_S8_BLOB_TABLE, (size_t)MICA_MACHINE_TABLE * 4, MICA_BLOB_ALIGN);
        p->factors = mica_load_blob(r, MICA_MACHINE_S8_BLOB_FACTORS, (size_t)p->in_n * p->out_n * 2, MICA_BLOB_ALIGN);
        p->bias = mica_load_blob(r, MICA_MACHINE_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
    }
    return MICA_LOAD_END(r, mica_machine_s8_check_constants(p, &r->what));
}

#endif

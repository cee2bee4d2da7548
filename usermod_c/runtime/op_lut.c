#include "op.h"
#ifndef MICA_WITHOUT_LUT_S8

MICA_RUN_ROWS(lut, LUT)

mica_status_t mica_load_lut(mica_step_record_t *r, mica_step_t *s) {
    mica_lut_s8_t *p = &s->p.lut;
    MICA_LOAD_BEGIN(r, s, p);
    p->n = r->y.bytes;
    p->table = mica_load_blob(r, MICA_LUT_S8_BLOB_TABLE, 256, MICA_BLOB_ALIGN);
    if (mica_load_same_shape(r)) {
        mica_load_checked(r, mica_lut_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_LUT_S16

MICA_RUN_ROWS_OF(lut_s16, mica_lut_s16_rows, MICA_LUT_S16)

mica_status_t mica_load_lut_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_lut_s16_t *p = &s->p.lut_s16;
    MICA_LOAD_BEGIN(r, s, p);
    p->n = r->y.bytes / 2;
    p->bits = (uint8_t)mica_load_param(r, MICA_LUT_S16_PARAM_BITS, 1, MICA_LUT_S16_MOST_BITS);
    mica_load_wide(r, 0, NULL, NULL);
    p->table = mica_load_blob(r, MICA_LUT_S16_BLOB_TABLE, ((1u << p->bits) + 1) * 2, MICA_BLOB_ALIGN);
    if (mica_load_same_shape(r)) {
        mica_load_checked(r, mica_lut_s16_check(p, &r->what));
    }
    return r->err->status;
}

#endif

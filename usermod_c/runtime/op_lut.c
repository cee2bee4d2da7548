#include "op.h"
#ifndef MICA_WITHOUT_LUT_S8

static void run(const mica_step_t *s, void *scratch, size_t scratch_bytes) {
    const mica_lut_s8_t *p = &s->p.lut;
    MICA_LUT_S8(p, 0, mica_lut_s8_rows(p), scratch, scratch_bytes);
}

mica_status_t mica_load_lut(mica_step_record_t *r, mica_step_t *s) {
    mica_lut_s8_t *p = &s->p.lut;
    s->run = run;
    p->y = r->y.data;
    p->x = r->x[0].data;
    p->n = r->y.bytes;
    p->table = mica_load_blob(r, MICA_LUT_S8_BLOB_TABLE, 256, MICA_BLOB_ALIGN);
    if (mica_load_same_shape(r)) {
        mica_load_checked(r, mica_lut_s8_check(p, &r->what));
    }
    return r->err->status;
}

#endif

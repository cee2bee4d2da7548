#include "op.h"
#ifndef MICA_WITHOUT_SOFTMAX_S16

MICA_RUN_ROWS_OF(softmax_s16, mica_softmax_s16_rows, MICA_SOFTMAX_S16)

mica_status_t mica_load_softmax_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_softmax_s16_t *p = &s->p.softmax_s16;
    MICA_LOAD_BEGIN(r, s, p);
    const mica_tensor_t *y = &r->y;
    mica_load_wide(r, 0, NULL, NULL);
    const bool sound = y->rank >= 1 && y->scale >= 1.0f / 32768 && y->scale <= 1.0f / 32768;
    if (mica_load_same_shape(r) && mica_load_require(r, sound, MICA_ERR_SHAPE,
        "softmax of a single element, or on a scale other than 2^-15")) {
        p->axis = (uint16_t)y->dims[y->rank - 1];
        p->rows = y->bytes / 2 / p->axis;
        p->table = mica_load_blob(r, MICA_SOFTMAX_S16_BLOB_EXPONENTIALS, 512 * 4, MICA_BLOB_ALIGN);
        if (mica_load_ok(r) && mica_load_checked(r, mica_softmax_s16_check(p, &r->what))) {
            mica_load_checked(r, mica_softmax_s16_check_constants(p, &r->what));
        }
    }
    return r->err->status;
}

#endif

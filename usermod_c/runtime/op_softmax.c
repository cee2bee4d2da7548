#include "op.h"
#ifndef MICA_WITHOUT_SOFTMAX_S8

MICA_RUN_ROWS(softmax, SOFTMAX)

mica_status_t mica_load_softmax(mica_step_record_t *r, mica_step_t *s) {
    mica_softmax_s8_t *p = &s->p.softmax;
    MICA_LOAD_BEGIN(r, s, p);
    const mica_tensor_t *y = &r->y;
    if (!mica_load_same_shape(r)
        || !mica_load_require(r, y->rank >= 1, MICA_ERR_SHAPE, "softmax of a single element")) {
        return r->err->status;
    }
    p->y_zero = (int8_t)y->zero_point;
    p->wide = !(y->zero_point == -128 && y->scale >= 1.0f / 256 && y->scale <= 1.0f / 256);
    p->axis = (uint16_t)y->dims[y->rank - 1];
    p->rows = y->bytes / p->axis;
    p->table = mica_load_blob(r, MICA_SOFTMAX_S8_BLOB_TABLE, p->wide ? 512 * 4 : 256 * 4, MICA_BLOB_ALIGN);
    if (mica_load_checked(r, mica_softmax_s8_check(p, &r->what))) {
        mica_load_checked(r, mica_softmax_s8_check_constants(p, &r->what));
    }
    return r->err->status;
}

#endif

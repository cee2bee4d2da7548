#include "op.h"
#ifndef MICA_WITHOUT_FEATURES_S8

MICA_RUN_ROWS(features, FEATURES)

mica_status_t mica_load_features(mica_step_record_t *r, mica_step_t *s) {
    mica_features_s8_t *p = &s->p.features;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_same_shape(r) || !mica_load_rows(r, &p->rows, &p->n, &p->n)) {
        return r->err->status;
    }
    mica_load_act(r, MICA_FEATURES_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_features_s8_check(p, &r->what))) {
        p->scale = mica_load_blob(r, MICA_FEATURES_S8_BLOB_SCALE, (size_t)p->n * 4, MICA_BLOB_ALIGN);
        p->exponent = mica_load_blob(r, MICA_FEATURES_S8_BLOB_EXPONENT, p->n, MICA_BLOB_ALIGN);
        p->offset = mica_load_blob(r, MICA_FEATURES_S8_BLOB_OFFSET, (size_t)p->n * 4, MICA_BLOB_ALIGN);
        p->missing = mica_load_blob(r, MICA_FEATURES_S8_BLOB_MISSING, p->n, MICA_BLOB_ALIGN);
    }
    return MICA_LOAD_END(r, mica_features_s8_check_constants(p, &r->what));
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_DISTANCES_S8

MICA_RUN_ROWS(distances, DISTANCES)

mica_status_t mica_load_distances(mica_step_record_t *r, mica_step_t *s) {
    mica_distances_s8_t *p = &s->p.distances;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return r->err->status;
    }
    p->kind = (uint8_t)mica_load_param(r, MICA_DISTANCES_S8_PARAM_KIND, 0, MICA_DISTANCES_PRODUCTS);
    p->bound = (int16_t)mica_load_param(r, MICA_DISTANCES_S8_PARAM_BOUND, 1, INT16_MAX);
    if (mica_load_ok(r) && mica_load_checked(r, mica_distances_s8_check(p, &r->what))) {
        p->points = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_POINTS, (size_t)p->in_n * p->out_n * 2, MICA_BLOB_ALIGN);
        p->scale = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_SCALE, (size_t)p->in_n * 4, MICA_BLOB_ALIGN);
        p->exponent = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_EXPONENT, p->in_n, MICA_BLOB_ALIGN);
        p->offset = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_OFFSET, (size_t)p->in_n * 4, MICA_BLOB_ALIGN);
        p->missing = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_MISSING, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
    }
    return MICA_LOAD_END(r, mica_distances_s8_check_constants(p, &r->what));
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_FOREST_S8

MICA_RUN_ROWS(forest, FOREST)

mica_status_t mica_load_forest(mica_step_record_t *r, mica_step_t *s) {
    mica_forest_s8_t *p = &s->p.forest;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return r->err->status;
    }
    p->y_zero = (int8_t)r->y.zero_point;
    p->words = (uint32_t)mica_load_param(r, MICA_FOREST_S8_PARAM_WORDS, MICA_FOREST_SPARE + 1, MICA_MAX_BYTES / 4);
    p->units = (uint32_t)mica_load_param(r, MICA_FOREST_S8_PARAM_UNITS, 1, MICA_FOREST_FIELD + 1);
    p->trees = (uint32_t)mica_load_param(r, MICA_FOREST_S8_PARAM_TREES, 1, 0xffff);
    mica_load_requant(r, MICA_FOREST_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_FOREST_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_forest_s8_check(p, &r->what))) {
        p->nodes = mica_load_blob(r, MICA_FOREST_S8_BLOB_NODES, (size_t)p->words * 4, MICA_BLOB_ALIGN);
        p->roots = mica_load_blob(r, MICA_FOREST_S8_BLOB_ROOTS, (size_t)p->trees * 4, MICA_BLOB_ALIGN);
        p->leaves = mica_load_blob(r, MICA_FOREST_S8_BLOB_LEAVES, (size_t)p->units * 4, MICA_BLOB_ALIGN);
        p->bias = mica_load_blob(r, MICA_FOREST_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
    }
    (void)MICA_LOAD_END(r, mica_forest_s8_check_constants(p, &r->what));
    return MICA_LOAD_CODE(forest, r, s);
}

#endif

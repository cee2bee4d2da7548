#include "op.h"
#ifndef MICA_WITHOUT_RANKS_S8

MICA_RUN_ROWS(ranks, RANKS)

mica_status_t mica_load_ranks(mica_step_record_t *r, mica_step_t *s) {
    mica_ranks_s8_t *p = &s->p.ranks;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return r->err->status;
    }
    p->n_thresholds = (uint32_t)mica_load_param(r, MICA_RANKS_S8_PARAM_COUNT, 0, MICA_MAX_BYTES / 4);
    if (mica_load_ok(r) && mica_load_checked(r, mica_ranks_s8_check(p, &r->what))) {
        p->thresholds = mica_load_blob(r, MICA_RANKS_S8_BLOB_THRESHOLDS, (size_t)p->n_thresholds * 4, MICA_BLOB_ALIGN);
        p->first = mica_load_blob(r, MICA_RANKS_S8_BLOB_FIRST, ((size_t)p->out_n + 1) * 4, MICA_BLOB_ALIGN);
        p->source = mica_load_blob(r, MICA_RANKS_S8_BLOB_SOURCE, (size_t)p->out_n * 2, MICA_BLOB_ALIGN);
        p->missing = mica_load_blob(r, MICA_RANKS_S8_BLOB_MISSING, p->out_n, MICA_BLOB_ALIGN);
    }
    (void)MICA_LOAD_END(r, mica_ranks_s8_check_constants(p, &r->what));
    return MICA_LOAD_CODE(ranks, r, s);
}

#endif

#include "op.h"
#ifndef MICA_WITHOUT_POOL_S16

MICA_RUN_ROWS_OF(pool_s16, mica_pool_s16_rows, MICA_POOL_S16)

mica_status_t mica_load_pool_s16(mica_step_record_t *r, mica_step_t *s) {
    mica_pool_s16_t *p = &s->p.pool_s16;
    MICA_LOAD_BEGIN(r, s, p);
    mica_load_window(r, &p->win);
    p->largest = (uint8_t)mica_load_param(r, MICA_POOL_S16_PARAM_LARGEST, 0, 1);
    mica_load_wide(r, MICA_POOL_S16_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    p->entries = mica_load_blob_bytes(r, MICA_POOL_S16_BLOB_SHIFT);
    if (mica_load_ok(r) && mica_load_checked(r, mica_pool_s16_check(p, &r->what))) {
        p->mult = mica_load_blob(r, MICA_POOL_S16_BLOB_MULT, (size_t)p->entries * 4, MICA_BLOB_ALIGN);
        p->shift = mica_load_blob(r, MICA_POOL_S16_BLOB_SHIFT, p->entries, MICA_BLOB_ALIGN);
    }
    return MICA_LOAD_END(r, mica_pool_s16_check_constants(p, &r->what));
}

#endif

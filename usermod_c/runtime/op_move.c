#include "op.h"
#ifndef MICA_WITHOUT_MOVE_S8

MICA_RUN_ROWS(move, MOVE)

mica_status_t mica_load_move(mica_step_record_t *r, mica_step_t *s) {
    mica_move_s8_t *p = &s->p.move;
    MICA_LOAD_BEGIN(r, s, p);
    p->x_n = r->x[0].bytes;
    p->begin = mica_load_param(r, MICA_MOVE_S8_PARAM_BEGIN, 0, MICA_MAX_BYTES);
    p->rank = (uint8_t)mica_load_param(r, MICA_MOVE_S8_PARAM_RANK, 1, MICA_MAX_RANK);
    const int32_t *map = mica_load_blob(r, MICA_MOVE_S8_BLOB_MAP, (size_t)p->rank * 8, MICA_BLOB_ALIGN);
    for (uint32_t i = 0; map != NULL && i < p->rank; ++i) {
        p->dim[i].n = (uint32_t)map[2 * i];
        p->dim[i].stride = map[2 * i + 1];
    }
    if (mica_load_same_scale(r) && mica_load_checked(r, mica_move_s8_check(p, &r->what))) {
        mica_load_require(r, mica_move_s8_y_bytes(p) == r->y.bytes, MICA_ERR_SHAPE,
            "the map's lengths do not make the output");
    }
    return r->err->status;
}

#endif

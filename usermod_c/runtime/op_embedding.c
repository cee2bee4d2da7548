#include "op.h"
#ifndef MICA_WITHOUT_EMBEDDING_S8

MICA_RUN_ROWS(embedding, EMBEDDING)

mica_status_t mica_load_embedding(mica_step_record_t *r, mica_step_t *s) {
    mica_embedding_s8_t *p = &s->p.embedding;
    s->run = run;
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    bool alike = y->rank == x->rank + 1u;
    for (uint32_t i = 0; alike && i < x->rank; ++i) {
        alike = x->dims[i] == y->dims[i];
    }
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "the output is not the input's shape and one dimension more")) {
        return r->err->status;
    }
    p->width = (uint16_t)y->dims[y->rank - 1];
    p->rows = y->bytes / p->width;
    p->vocabulary = (uint32_t)mica_load_param(r, MICA_EMBEDDING_S8_PARAM_ROWS, 1, MICA_MAX_BYTES);
    if (mica_load_ok(r) && mica_load_checked(r, mica_embedding_s8_check(p, &r->what))) {
        p->table = mica_load_blob(r, MICA_EMBEDDING_S8_BLOB_TABLE, mica_embedding_s8_table_bytes(p), MICA_BLOB_ALIGN);
    }
    return r->err->status;
}

#endif

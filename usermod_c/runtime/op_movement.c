#include "op.h"

#ifndef MICA_WITHOUT_TRANSPOSE_S8
MICA_LOAD_ROWS(transpose, TRANSPOSE) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    p->rank = y->rank;
    bool alike = x->rank == y->rank;
    for (uint32_t i = 0; i < y->rank; ++i) {
        p->y_dims[i] = (uint16_t)y->dims[i];
        p->perm[i] = (uint8_t)mica_load_param(r, MICA_TRANSPOSE_S8_PARAM_PERM_0 + i, 0, y->rank - 1);
        alike = alike && y->dims[i] == x->dims[p->perm[i]];
    }
    if (mica_load_require(r, alike, MICA_ERR_SHAPE, "the output is not the permuted input")
        && mica_load_same_scale(r)) {
        mica_load_checked(r, mica_transpose_s8_check(p, &r->what));
    }
}
#endif

#ifndef MICA_WITHOUT_MOVE_S8
MICA_LOAD_ROWS(move, MOVE) {
    MICA_LOAD_ONE(r, p);
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
}
#endif

#ifndef MICA_WITHOUT_CONCAT_S8
MICA_LOAD_ROWS(concat, CONCAT) {
    p->y = r->y.data;
    p->n = (uint8_t)r->n_inputs;
    const mica_tensor_t *y = &r->y;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_CONCAT_S8_PARAM_AXIS, 0, y->rank - 1);
    uint32_t inner = 1, total = 0;
    p->rows = 1;
    for (uint32_t i = 0; i < y->rank; ++i) {
        p->rows *= i < axis ? y->dims[i] : 1;
        inner *= i > axis ? y->dims[i] : 1;
    }
    bool alike = true;
    for (uint32_t k = 0; k < p->n && mica_load_ok(r); ++k) {
        const mica_tensor_t *x = &r->x[k];
        p->x[k] = x->data;
        p->part[k] = x->dims[axis] * inner;
        total += x->dims[axis];  // at most four times MICA_MAX_DIM
        for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
            alike = alike && (i == axis || x->dims[i] == y->dims[i]);
        }
        alike = alike && x->rank == y->rank;
        mica_load_require(r, x->zero_point == y->zero_point && x->scale >= y->scale && x->scale <= y->scale,
            MICA_ERR_RANGE,
            "an input differs from the output in scale or zero point");
    }
    mica_load_require(r, alike && total == y->dims[axis], MICA_ERR_SHAPE, "the inputs do not make the output");
    mica_load_checked(r, mica_concat_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_PAD_S8
MICA_LOAD_ROWS(pad, PAD) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    p->rank = y->rank;
    p->mode = (uint8_t)mica_load_param(r, MICA_PAD_S8_PARAM_MODE, MICA_PAD_CONSTANT, MICA_PAD_WRAP);
    p->value = (int8_t)mica_load_param(r, MICA_PAD_S8_PARAM_VALUE, -128, 127);
    for (uint32_t i = 0; i < y->rank; ++i) {
        p->x_dims[i] = (uint16_t)x->dims[i];
        p->y_dims[i] = (uint16_t)y->dims[i];
        p->begin[i] = (uint16_t)mica_load_param(r, MICA_PAD_S8_PARAM_BEGIN_0 + i, 0, MICA_MAX_DIM);
    }
    if (mica_load_require(r, x->rank == y->rank, MICA_ERR_SHAPE, "input and output differ in rank")
        && mica_load_same_scale(r)) {
        mica_load_checked(r, mica_pad_s8_check(p, &r->what));
    }
}
#endif

#ifndef MICA_WITHOUT_GATHER_S8
MICA_LOAD_ROWS(gather, GATHER) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_GATHER_S8_PARAM_AXIS, 0, y->rank - 1);
    bool alike = x->rank == y->rank;
    p->rows = p->inner = 1;
    for (uint32_t i = 0; i < y->rank; ++i) {
        alike = alike && (i == axis || x->dims[i] == y->dims[i]);
        p->rows *= i < axis ? y->dims[i] : 1;
        p->inner *= i > axis ? y->dims[i] : 1;
    }
    p->x_n = (uint16_t)x->dims[axis];
    p->y_n = (uint16_t)y->dims[axis];
    p->indices = mica_load_blob(r, MICA_GATHER_S8_BLOB_INDICES, (size_t)p->y_n * 4, MICA_BLOB_ALIGN);
    if (mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ beside the axis")
        && mica_load_same_scale(r) && mica_load_checked(r, mica_gather_s8_check(p, &r->what))) {
        mica_load_checked(r, mica_gather_s8_check_constants(p, &r->what));
    }
}
#endif

#ifndef MICA_WITHOUT_EMBEDDING_S8
MICA_LOAD_ROWS(embedding, EMBEDDING) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    bool alike = y->rank == x->rank + 1u;
    for (uint32_t i = 0; alike && i < x->rank; ++i) {
        alike = x->dims[i] == y->dims[i];
    }
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "the output is not the input's shape and one dimension more")) {
        return;
    }
    p->width = (uint16_t)y->dims[y->rank - 1];
    p->rows = y->bytes / p->width;
    p->vocabulary = (uint32_t)mica_load_param(r, MICA_EMBEDDING_S8_PARAM_ROWS, 1, MICA_MAX_BYTES);
    if (mica_load_ok(r) && mica_load_checked(r, mica_embedding_s8_check(p, &r->what))) {
        p->table = mica_load_blob(r, MICA_EMBEDDING_S8_BLOB_TABLE, mica_embedding_s8_table_bytes(p), MICA_BLOB_ALIGN);
    }
}
#endif

#ifndef MICA_WITHOUT_SCATTER_S8
MICA_LOAD_ROWS(scatter, SCATTER) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *u = &r->x[1], *y = &r->y;
    p->x = x->data;
    p->rows_of = u->data;
    p->index = (const int32_t *)r->x[2].data;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_SCATTER_S8_PARAM_AXIS, 0, y->rank - 1);
    p->circular = mica_load_param(r, MICA_SCATTER_S8_PARAM_CIRCULAR, 0, 1) != 0;
    bool alike = u->rank == y->rank;
    p->rows = p->inner = 1;
    for (uint32_t i = 0; i < y->rank; ++i) {
        alike = alike && (i == axis || u->dims[i] == y->dims[i]);
        p->rows *= i < axis ? y->dims[i] : 1;
        p->inner *= i > axis ? y->dims[i] : 1;
    }
    p->x_n = (uint16_t)x->dims[axis];
    p->r_n = (uint16_t)u->dims[axis];
    uint32_t n = r->x[2].bytes / 4;
    if (!mica_load_same_shape(r) || !mica_load_same_scale(r)
        || !mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ beside the axis")
        || !mica_load_require(r, u->zero_point == y->zero_point && u->scale >= y->scale && u->scale <= y->scale,
        MICA_ERR_RANGE,
            "the rows differ from the output in scale or zero point")
        || !mica_load_require(r, n == 1 || (axis > 0 && n == x->dims[0]), MICA_ERR_SHAPE,
            "the number of indices is neither 1 nor the first dimension")) {
        return;
    }
    p->per_index = p->rows / n;
    mica_load_checked(r, mica_scatter_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_PICK_S8
MICA_LOAD_ROWS(pick, PICK) {
    const mica_tensor_t *x = &r->x[0], *at = &r->x[1], *y = &r->y;
    p->y = y->data;
    p->x = x->data;
    p->places = (const int32_t *)at->data;
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_PICK_S8_PARAM_AXIS, 0, x->rank - 1);
    bool alike = x->rank == y->rank && at->rank == y->rank, each = alike, row = alike;
    for (uint32_t i = 0; mica_load_ok(r) && alike && i < y->rank; ++i) {
        each &= at->dims[i] == y->dims[i];
        row &= at->dims[i] == (i > axis ? 1 : y->dims[i]);
        alike = (each || row) && (i == axis || x->dims[i] == y->dims[i]);
    }
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE,
        "input and output differ beside the axis, or the places have another shape") || !mica_load_same_scale(r)) {
        return;
    }
    mica_load_split(r, axis, 1, &p->outer, &p->n, &p->inner);
    p->k = y->dims[axis];
    p->step = each;
    mica_load_checked(r, mica_pick_s8_check(p, &r->what));
}
#endif

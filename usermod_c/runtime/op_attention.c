#include "op.h"

#ifndef MICA_WITHOUT_ATTEND_S8
MICA_LOAD_ROWS(attend, ATTEND) {
    p->y = r->y.data;
    const mica_tensor_t *q = &r->x[0], *k = &r->x[1], *v = &r->x[2], *y = &r->y;
    p->q = q->data;
    p->k = k->data;
    p->v = v->data;
    p->length = (const int32_t *)r->x[3].data;
    const uint32_t rank = y->rank;
    bool alike = rank >= 2 && q->rank == rank && k->rank == rank && v->rank == rank;
    p->heads = 1;
    for (uint32_t i = 0; alike && i + 2 < rank; ++i) {
        alike = q->dims[i] == y->dims[i] && k->dims[i] == y->dims[i] && v->dims[i] == y->dims[i];
        p->heads *= y->dims[i];
    }
    if (!mica_load_require(r, alike && r->x[3].bytes == 4, MICA_ERR_SHAPE,
        "the inputs differ before the last two dimensions")) {
        return;
    }
    alike = q->dims[rank - 1] == k->dims[rank - 1] && k->dims[rank - 2] == v->dims[rank - 2]
        && y->dims[rank - 2] == q->dims[rank - 2] && y->dims[rank - 1] == v->dims[rank - 1];
    p->m = (uint16_t)q->dims[rank - 2];
    p->d = (uint16_t)q->dims[rank - 1];
    p->t = (uint16_t)k->dims[rank - 2];
    p->e = (uint16_t)v->dims[rank - 1];
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "queries, keys and values do not make the output")) {
        return;
    }
    mica_load_param(r, MICA_ATTEND_S8_PARAM_ROWS, p->t, p->t);
    mica_load_param(r, MICA_ATTEND_S8_PARAM_WIDTH, p->d, p->d);
    p->q_zero = (int8_t)q->zero_point;
    p->k_zero = (int8_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_K_ZERO, k->zero_point, k->zero_point);
    p->v_zero = (int8_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_V_ZERO, v->zero_point, v->zero_point);
    p->y_zero = (int8_t)y->zero_point;
    p->limit = (uint32_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_LIMIT, 1, INT32_MAX);
    p->fall = (uint32_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_FALL, 0, INT32_MAX);
    p->fall_shift = (int8_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_FALL_SHIFT, 0, 31);
    p->mult = mica_load_param(r, MICA_ATTEND_S8_PARAM_MULT, 0, INT32_MAX);
    p->shift = (int8_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_SHIFT, -6, 8);
    p->more = (uint8_t)mica_load_param(r, MICA_ATTEND_S8_PARAM_MORE, 0, 1);
    mica_load_act(r, MICA_ATTEND_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_attend_s8_check(p, &r->what))) {
        p->table = mica_load_blob(r, MICA_ATTEND_S8_BLOB_TABLE, 257 * 2, MICA_BLOB_ALIGN);
    }
    if (mica_load_ok(r) && mica_load_checked(r, mica_attend_s8_check_constants(p, &r->what))) {
        p->first = p->table[0];
        mica_load_scratch(r, mica_attend_s8_scratch_bytes(p));
    }
}
#endif

#ifndef MICA_WITHOUT_ROTATE_S8
MICA_LOAD_ROWS(rotate, ROTATE) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *cosines = &r->x[1], *sines = &r->x[2], *y = &r->y;
    p->x = x->data;
    p->c = cosines->data;
    p->s = sines->data;
    bool alike = x->rank >= 1 && x->rank == y->rank && cosines->rank >= 1 && cosines->rank == sines->rank;
    for (uint32_t i = 0; alike && i < x->rank; ++i) {
        alike = x->dims[i] == y->dims[i];
    }
    for (uint32_t i = 0; alike && i < cosines->rank; ++i) {
        alike = cosines->dims[i] == sines->dims[i];
    }
    alike = alike && x->dims[x->rank - 1] == 2 * (uint64_t)cosines->dims[cosines->rank - 1];
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "rows, cosines, sines and output do not go together")) {
        return;
    }
    p->half = cosines->dims[cosines->rank - 1];
    p->rows = 1;
    for (uint32_t i = 0; i + 1 < x->rank; ++i) {
        p->rows *= x->dims[i];
    }
    p->turns = 1;
    for (uint32_t i = 0; i + 1 < cosines->rank; ++i) {
        p->turns *= cosines->dims[i];
    }
    p->x_zero = (int8_t)x->zero_point;
    p->y_zero = (int8_t)y->zero_point;
    p->inner = (uint32_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_INNER, 1, INT32_MAX);
    p->c_zero = (int8_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_C_ZERO, cosines->zero_point, cosines->zero_point);
    p->s_zero = (int8_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_S_ZERO, sines->zero_point, sines->zero_point);
    p->mult_c = mica_load_param(r, MICA_ROTATE_S8_PARAM_MULT_C, 0, INT32_MAX);
    p->mult_s = mica_load_param(r, MICA_ROTATE_S8_PARAM_MULT_S, 0, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_ROTATE_S8_PARAM_SHIFT, 1, 30);
    mica_load_act(r, MICA_ROTATE_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    MICA_LOAD_END(r, mica_rotate_s8_check(p, &r->what));
}
#endif

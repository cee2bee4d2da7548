#include "op.h"
#ifndef MICA_WITHOUT_NORM_S8

// MICA_RUN_ROWS without a call: a row of a decoder takes 1,600 cycles.
static uint32_t run(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) {
    const uint32_t rows = s->p.norm.rows;
    end = end < rows ? end : rows;
    if (begin < end) {
        MICA_NORM_S8(&s->p.norm, begin, end, scratch, scratch_bytes);
    }
    return rows;
}

mica_status_t mica_load_norm(mica_step_record_t *r, mica_step_t *s) {
    mica_norm_s8_t *p = &s->p.norm;
    MICA_LOAD_BEGIN(r, s, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    const int32_t axis = mica_load_param(r, MICA_NORM_S8_PARAM_AXIS, 0, r->x[0].rank);
    p->mode = (uint8_t)mica_load_param(r, MICA_NORM_S8_PARAM_MODE, 0, MICA_NORM_SQUARES);
    p->each = (uint8_t)mica_load_param(r, MICA_NORM_S8_PARAM_EACH, 0, 1);
    p->fraction = (uint8_t)mica_load_param(r, MICA_NORM_S8_PARAM_FRACTION, 0, 16);
    p->epsilon = (uint32_t)mica_load_param(r, MICA_NORM_S8_PARAM_EPSILON, 0, INT32_MAX);
    p->factor = (uint16_t)mica_load_param(r, MICA_NORM_S8_PARAM_FACTOR, 1, UINT16_MAX);
    p->up = mica_load_param(r, MICA_NORM_S8_PARAM_UP, -24, 16);
    p->offset = mica_load_param(r, MICA_NORM_S8_PARAM_OFFSET, 1 - (1 << 30), (1 << 30) - 1);
    mica_load_act(r, MICA_NORM_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (!mica_load_same_shape(r)) {
        return r->err->status;
    }
    uint32_t n, none;
    mica_load_split(r, (uint32_t)axis, MICA_MAX_RANK, &p->rows, &n, &none);
    p->n = (uint16_t)n;
    if (mica_load_require(r, n <= MICA_MAX_DIM, MICA_ERR_SHAPE, "more than 65535 elements to normalise together")
        && mica_load_checked(r, mica_norm_s8_check(p, &r->what))) {
        p->terms = mica_load_blob(r, MICA_NORM_S8_BLOB_TERMS, p->n * (4u << p->each), MICA_BLOB_ALIGN);
        if (mica_load_ok(r)) {
            mica_load_checked(r, mica_norm_s8_check_constants(p, &r->what));
        }
    }
    return r->err->status;
}

#endif

#include "op.h"

#ifndef MICA_WITHOUT_LAYER_NORM_S8
MICA_LOAD_ROWS(layer_norm, LAYER_NORM) {
    MICA_LOAD_ONE(r, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    p->y_zero = (int8_t)r->y.zero_point;
    int32_t axis = mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_AXIS, 0, r->x[0].rank);
    p->inner = (uint16_t)mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_INNER, 1, MICA_MAX_DIM);
    p->channels = (uint16_t)mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_CHANNELS, 1, MICA_MAX_DIM);
    p->mode = (uint8_t)mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_MODE, 0, MICA_NORM_ABSOLUTE);
    p->epsilon = (uint32_t)mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_EPSILON_LOW, INT32_MIN, INT32_MAX);
    p->epsilon |= (uint64_t)mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_EPSILON_HIGH, 0, (1 << 30) - 1) << 32;
    p->shift = (uint8_t)mica_load_param(r, MICA_LAYER_NORM_S8_PARAM_SHIFT, 0, 30);
    mica_load_act(r, MICA_LAYER_NORM_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (!mica_load_same_shape(r)) {
        return;
    }
    uint32_t n, none;
    mica_load_split(r, (uint32_t)axis, MICA_MAX_RANK, &p->rows, &n, &none);
    p->n = (uint16_t)n;
    if (mica_load_require(r, n <= MICA_MAX_DIM, MICA_ERR_SHAPE, "more than 65535 elements to normalise together")
        && mica_load_checked(r, mica_layer_norm_s8_check(p, &r->what))) {
        p->gamma = mica_load_blob(r, MICA_LAYER_NORM_S8_BLOB_GAMMA, p->channels * 4u, MICA_BLOB_ALIGN);
        p->beta = mica_load_blob(r, MICA_LAYER_NORM_S8_BLOB_BETA, p->channels * 4u, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_layer_norm_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_NORM_S8
// MICA_RUN_ROWS without a call: a row of a decoder takes 1,600 cycles.
static uint32_t run_norm(MICA_RUN_ARGS) {
    const uint32_t rows = s->p.norm.rows;
    end = end < rows ? end : rows;
    if (begin < end) {
        MICA_NORM_S8(&s->p.norm, begin, end, scratch, scratch_bytes);
    }
    return rows;
}

MICA_LOADER(norm, norm_s8) {
    MICA_LOAD_ONE(r, p);
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
        return;
    }
    uint32_t n, none;
    mica_load_split(r, (uint32_t)axis, MICA_MAX_RANK, &p->rows, &n, &none);
    p->n = (uint16_t)n;
    if (mica_load_require(r, n <= MICA_MAX_DIM, MICA_ERR_SHAPE, "more than 65535 elements to normalise together")
        && mica_load_checked(r, mica_norm_s8_check(p, &r->what))) {
        p->terms = mica_load_blob(r, MICA_NORM_S8_BLOB_TERMS, p->n * (4u << p->each), MICA_BLOB_ALIGN);
        MICA_LOAD_END(r, mica_norm_s8_check_constants(p, &r->what));
    }
}
#endif

#include "op.h"

#ifndef MICA_WITHOUT_REDUCE_S8
MICA_LOAD_ROWS(reduce, REDUCE) {
    MICA_LOAD_ONE(r, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    p->y_zero = (int8_t)r->y.zero_point;
    int32_t rank = r->x[0].rank;
    int32_t axis = mica_load_param(r, MICA_REDUCE_S8_PARAM_AXIS, 0, rank);
    int32_t axes = mica_load_param(r, MICA_REDUCE_S8_PARAM_AXES, 0, rank - axis);
    p->mode = (uint8_t)mica_load_param(r, MICA_REDUCE_S8_PARAM_MODE, 0, MICA_REDUCE_LOG);
    mica_load_requant(r, MICA_REDUCE_S8_PARAM_MULT, &p->mult, &p->shift);
    p->bias = mica_load_param(r, MICA_REDUCE_S8_PARAM_BIAS, INT32_MIN, INT32_MAX);
    mica_load_act(r, MICA_REDUCE_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (!mica_load_ok(r)) {
        return;
    }
    mica_load_split(r, (uint32_t)axis, (uint32_t)axes, &p->outer, &p->n, &p->inner);
    if (mica_load_checked(r, mica_reduce_s8_check(p, &r->what))
        && mica_load_require(r, mica_reduce_s8_rows(p) == r->y.bytes, MICA_ERR_SHAPE, "the output has another size")
        && (p->mode == MICA_REDUCE_MAX || p->mode == MICA_REDUCE_MIN)) {
        mica_load_same_scale(r);
    }
}
#endif

#ifndef MICA_WITHOUT_ARGMAX_S8
MICA_LOAD_ROWS(argmax, ARGMAX) {
    MICA_LOAD_ONE(r, p);
    int32_t axis = mica_load_param(r, MICA_ARGMAX_S8_PARAM_AXIS, 0, r->x[0].rank - 1);
    p->minimum = (uint8_t)mica_load_param(r, MICA_ARGMAX_S8_PARAM_MINIMUM, 0, 1);
    p->select_last = (uint8_t)mica_load_param(r, MICA_ARGMAX_S8_PARAM_SELECT_LAST, 0, 1);
    if (!mica_load_ok(r)) {
        return;
    }
    mica_load_split(r, (uint32_t)axis, 1, &p->outer, &p->n, &p->inner);
    if (mica_load_checked(r, mica_argmax_s8_check(p, &r->what))) {
        mica_load_require(r, mica_argmax_s8_y_bytes(p) == r->y.bytes, MICA_ERR_SHAPE, "the output has another size");
    }
}
#endif

#ifndef MICA_WITHOUT_TOP_K_S8
MICA_LOAD_ROWS(top_k, TOP_K) {
    MICA_LOAD_ONE(r, p);
    uint32_t axis = (uint32_t)mica_load_param(r, MICA_TOP_K_S8_PARAM_AXIS, 0, r->x[0].rank - 1);
    p->smallest = (uint8_t)mica_load_param(r, MICA_TOP_K_S8_PARAM_SMALLEST, 0, 1);
    bool alike = r->x[0].rank == r->y.rank;
    for (uint32_t i = 0; mica_load_ok(r) && alike && i < r->y.rank; ++i) {
        alike = i == axis || r->x[0].dims[i] == r->y.dims[i];
    }
    if (!mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ beside the axis")) {
        return;
    }
    mica_load_split(r, axis, 1, &p->outer, &p->n, &p->inner);
    p->k = r->y.dims[axis];
    mica_load_checked(r, mica_top_k_s8_check(p, &r->what));
}
#endif

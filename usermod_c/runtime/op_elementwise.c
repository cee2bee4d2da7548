#include "op.h"

#ifndef MICA_WITHOUT_ADD_S8
MICA_LOAD_ROWS(add, ADD) {
    MICA_LOAD_TWO(r, p);
    p->y_zero = (int8_t)r->y.zero_point;
    p->mult_a = mica_load_param(r, MICA_ADD_S8_PARAM_MULT_A, INT32_MIN, INT32_MAX);
    p->mult_b = mica_load_param(r, MICA_ADD_S8_PARAM_MULT_B, INT32_MIN, INT32_MAX);
    p->offset = mica_load_param(r, MICA_ADD_S8_PARAM_OFFSET, INT32_MIN, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_ADD_S8_PARAM_SHIFT, 0, 30);
    mica_load_act(r, MICA_ADD_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    MICA_LOAD_END(r, mica_add_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_MUL_S8
MICA_LOAD_ROWS(mul, MUL) {
    MICA_LOAD_TWO(r, p);
    MICA_LOAD_ZEROS(r, p);
    mica_load_requant(r, MICA_MUL_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MUL_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    MICA_LOAD_END(r, mica_mul_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_MINMAX_S8
MICA_LOAD_ROWS(minmax, MINMAX) {
    MICA_LOAD_TWO(r, p);
    p->y_zero = (int8_t)r->y.zero_point;
    p->mult_a = mica_load_param(r, MICA_MINMAX_S8_PARAM_MULT_A, INT32_MIN, INT32_MAX);
    p->offset_a = mica_load_param(r, MICA_MINMAX_S8_PARAM_OFFSET_A, INT32_MIN, INT32_MAX);
    p->mult_b = mica_load_param(r, MICA_MINMAX_S8_PARAM_MULT_B, INT32_MIN, INT32_MAX);
    p->offset_b = mica_load_param(r, MICA_MINMAX_S8_PARAM_OFFSET_B, INT32_MIN, INT32_MAX);
    p->shift = (uint8_t)mica_load_param(r, MICA_MINMAX_S8_PARAM_SHIFT, 0, 30);
    p->larger = (uint8_t)mica_load_param(r, MICA_MINMAX_S8_PARAM_LARGER, 0, 1);
    mica_load_act(r, MICA_MINMAX_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    MICA_LOAD_END(r, mica_minmax_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_DIV_S8
MICA_LOAD_ROWS(div, DIV) {
    MICA_LOAD_TWO(r, p);
    MICA_LOAD_ZEROS(r, p);
    p->factor = (uint32_t)mica_load_param(r, MICA_DIV_S8_PARAM_FACTOR, 0, 1 << 21);
    p->shift = (uint8_t)mica_load_param(r, MICA_DIV_S8_PARAM_SHIFT, 0, 22);
    mica_load_act(r, MICA_DIV_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_broadcast(r, &p->shape);
    MICA_LOAD_END(r, mica_div_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_LUT_S8
MICA_LOAD_ROWS(lut, LUT) {
    MICA_LOAD_ONE(r, p);
    p->n = r->y.bytes;
    p->table = mica_load_blob(r, MICA_LUT_S8_BLOB_TABLE, 256, MICA_BLOB_ALIGN);
    mica_load_same_shape(r);
    MICA_LOAD_END(r, mica_lut_s8_check(p, &r->what));
}
#endif

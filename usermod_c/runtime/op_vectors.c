#include "op.h"

#ifndef MICA_WITHOUT_DISTANCES_S8
MICA_LOAD_ROWS(distances, DISTANCES) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return;
    }
    p->kind = (uint8_t)mica_load_param(r, MICA_DISTANCES_S8_PARAM_KIND, 0, MICA_DISTANCES_PRODUCTS);
    p->bound = (int16_t)mica_load_param(r, MICA_DISTANCES_S8_PARAM_BOUND, 1, INT16_MAX);
    if (mica_load_ok(r) && mica_load_checked(r, mica_distances_s8_check(p, &r->what))) {
        p->points = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_POINTS, (size_t)p->in_n * p->out_n * 2, MICA_BLOB_ALIGN);
        p->scale = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_SCALE, (size_t)p->in_n * 4, MICA_BLOB_ALIGN);
        p->exponent = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_EXPONENT, p->in_n, MICA_BLOB_ALIGN);
        p->offset = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_OFFSET, (size_t)p->in_n * 4, MICA_BLOB_ALIGN);
        p->missing = mica_load_blob(r, MICA_DISTANCES_S8_BLOB_MISSING, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_distances_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_NEAREST_S8
MICA_LOAD_ROWS(nearest, NEAREST) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return;
    }
    p->k = (uint16_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_K, 1, UINT16_MAX);
    p->kind = (uint8_t)mica_load_param(r, MICA_NEAREST_S8_PARAM_KIND, 0, MICA_NEAREST_REACH);
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_NEAREST_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_NEAREST_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_nearest_s8_check(p, &r->what))) {
        p->target = mica_load_blob(r, MICA_NEAREST_S8_BLOB_TARGET, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
        p->value = mica_load_blob(r, MICA_NEAREST_S8_BLOB_VALUE, (size_t)p->in_n * 2, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_nearest_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_MACHINE_S8
MICA_LOAD_ROWS(machine, MACHINE) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return;
    }
    mica_load_requant(r, MICA_MACHINE_S8_PARAM_IN_MULT, &p->in_mult, &p->in_shift);
    p->in_offset = mica_load_param(r, MICA_MACHINE_S8_PARAM_IN_OFFSET, INT32_MIN, INT32_MAX);
    p->down = (uint8_t)mica_load_param(r, MICA_MACHINE_S8_PARAM_DOWN, 0, 40);
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_requant(r, MICA_MACHINE_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MACHINE_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_machine_s8_check(p, &r->what))) {
        p->table = mica_load_blob(r, MICA_MACHINE_S8_BLOB_TABLE, (size_t)MICA_MACHINE_TABLE * 4, MICA_BLOB_ALIGN);
        p->factors = mica_load_blob(r, MICA_MACHINE_S8_BLOB_FACTORS, (size_t)p->in_n * p->out_n * 2, MICA_BLOB_ALIGN);
        p->bias = mica_load_blob(r, MICA_MACHINE_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_machine_s8_check_constants(p, &r->what));
}
#endif

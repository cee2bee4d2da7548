#include "op.h"

#ifndef MICA_WITHOUT_AXES_S8
static void load_constants(mica_step_record_t *r, mica_axes_s8_t *p) {
    const size_t n = (size_t)p->axes * p->each;
    p->tables = mica_load_blob(r, MICA_AXES_S8_BLOB_TABLES, p->bands ? ((size_t)p->fft + 2 + p->rows) * 2 : 0,
        MICA_BLOB_ALIGN);
    p->filters = mica_load_blob(r, MICA_AXES_S8_BLOB_FILTERS, (size_t)p->bands * 4, MICA_BLOB_ALIGN);
    p->least = mica_load_blob(r, MICA_AXES_S8_BLOB_LEAST, p->bands ? (size_t)p->axes * 4 : 0, MICA_BLOB_ALIGN);
    p->bias = mica_load_blob(r, MICA_AXES_S8_BLOB_BIAS, n * 4, MICA_BLOB_ALIGN);
    p->mult = mica_load_blob(r, MICA_AXES_S8_BLOB_MULT, n * 4, MICA_BLOB_ALIGN);
    p->shift = mica_load_blob(r, MICA_AXES_S8_BLOB_SHIFT, n, MICA_BLOB_ALIGN);
}

// Whether x is [.., rows, axes] and y [.., axes, each], or with the flag across [.., each, axes].
static bool load_shapes(mica_step_record_t *r, mica_axes_s8_t *p) {
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    bool fits = x->rank >= 1 && y->rank >= 2;
    if (fits) {
        const bool flat = p->axes == 1 && x->dims[x->rank - 1] == p->rows;  // samples alone
        const uint32_t inner = flat ? 1 : 2, at = p->flags & MICA_AXES_ACROSS ? 1 : 2;
        fits = x->rank >= inner && x->dims[x->rank - inner] == p->rows && (flat || x->dims[x->rank - 1] == p->axes)
            && y->dims[y->rank - at] == p->axes;
        fits = fits && mica_load_sound(r, x, inner) && mica_load_sound(r, y, 2);
        p->each = (uint16_t)y->dims[y->rank - 3 + at];
    }
    return mica_load_require(r, fits, MICA_ERR_SHAPE, "input and output are not the rows and features of the axes");
}

MICA_LOAD_ROWS(axes, AXES) {
    MICA_LOAD_ONE(r, p);
    p->y_zero = (int8_t)r->y.zero_point;
    p->rows = (uint16_t)mica_load_param(r, MICA_AXES_S8_PARAM_ROWS, 2, MICA_AXES_MOST_ROWS);
    p->axes = (uint16_t)mica_load_param(r, MICA_AXES_S8_PARAM_AXES, 1, MICA_MAX_DIM);
    p->stats = (uint32_t)mica_load_param(r, MICA_AXES_S8_PARAM_STATS, 0, 0x77777777);
    p->bands = (uint16_t)mica_load_param(r, MICA_AXES_S8_PARAM_BANDS, 0, MICA_MAX_DIM);
    p->fft = (uint16_t)mica_load_param(r, MICA_AXES_S8_PARAM_FFT, 0, MICA_LOG_MEL_MOST_POINTS);
    p->energy = (uint8_t)mica_load_param(r, MICA_AXES_S8_PARAM_ENERGY, 0, MICA_AXES_ENERGIES - 1);
    p->places = (int8_t)mica_load_param(r, MICA_AXES_S8_PARAM_PLACES, -MICA_AXES_PLACES, MICA_AXES_PLACES);
    p->flags = (uint8_t)mica_load_param(r, MICA_AXES_S8_PARAM_FLAGS, 0, MICA_AXES_ACROSS);
    mica_load_act(r, MICA_AXES_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (!mica_load_ok(r) || !load_shapes(r, p)) {
        return;
    }
    if (mica_load_checked(r, mica_axes_s8_check(p, &r->what)) && mica_load_scratch(r, mica_axes_s8_scratch_bytes(p))) {
        load_constants(r, p);
    }
    if (mica_load_ok(r) && mica_load_checked(r, mica_axes_s8_check_constants(p, &r->what))) {
        mica_axes_s8_prepare(p);
    }
}
#endif

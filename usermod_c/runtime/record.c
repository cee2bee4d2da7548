// mica: a step's record, as the loaders of operators ask for it (see model.h). The first error is kept.
#include "model.h"

mica_status_t mica_record_fail(mica_step_record_t *r, mica_status_t status, const char *what, uint32_t field,
    uint32_t found, uint32_t expected) {
    return mica_fail(r->err, status, what, mica_at(&r->m->file, r->record) + field, found, expected);
}

bool mica_load_checked(mica_step_record_t *r, mica_status_t status) {
    if (mica_load_ok(r) && status != MICA_OK) {
        mica_record_fail(r, status, r->what, 0, 0, 0);
    }
    return mica_load_ok(r);
}

bool mica_load_require(mica_step_record_t *r, bool sound, mica_status_t status, const char *reason) {
    if (mica_load_ok(r) && !sound) {
        mica_record_fail(r, status, reason, 0, 0, 0);
    }
    return mica_load_ok(r);
}

int32_t mica_load_param(mica_step_record_t *r, uint32_t i, int32_t low, int32_t high) {
    uint32_t field = MICA_STEP_PARAMS + 4 * i;
    int32_t v = (int32_t)mica_u32(r->record + field);
    if (mica_load_ok(r) && (v < low || v > high)) {
        mica_record_fail(r, MICA_ERR_RANGE, "a parameter is out of its range", field, (uint32_t)v,
            (uint32_t)(v < low ? low : high));
    }
    return mica_load_ok(r) ? v : 0;
}

void mica_load_requant(mica_step_record_t *r, uint32_t i, int32_t *mult, int8_t *shift) {
    *mult = mica_load_param(r, i, MICA_MULT_MIN, MICA_MULT_MAX);
    *shift = (int8_t)mica_load_param(r, i + 1, MICA_SHIFT_MIN, MICA_SHIFT_MAX);
}

void mica_load_act(mica_step_record_t *r, uint32_t i, int8_t *act_min, int8_t *act_max) {
    *act_min = (int8_t)mica_load_param(r, i, -128, 127);
    *act_max = (int8_t)mica_load_param(r, i + 1, -128, 127);
}

void mica_load_wide(mica_step_record_t *r, uint32_t i, int16_t *act_min, int16_t *act_max) {
    if (act_min != NULL) {
        *act_min = (int16_t)mica_load_param(r, i, INT16_MIN, INT16_MAX);
        *act_max = (int16_t)mica_load_param(r, i + 1, *act_min, INT16_MAX);
    }
    bool sound = r->y.dtype != MICA_DTYPE_INT16 || r->y.zero_point == 0;
    for (uint32_t k = 0; k < r->n_inputs; ++k) {
        sound = sound && (r->x[k].dtype != MICA_DTYPE_INT16 || r->x[k].zero_point == 0);
    }
    mica_load_require(r, sound, MICA_ERR_RANGE, "a zero point of int16 that is not 0");
}

void mica_load_broadcast(mica_step_record_t *r, mica_broadcast_t *shape) {
    const mica_tensor_t *a = &r->x[0], *b = &r->x[1], *y = &r->y;
    mica_load_checked(r, mica_broadcast_shapes(shape, a->dims, a->rank, b->dims, b->rank, y->dims, y->rank, &r->what));
}

void mica_load_window(mica_step_record_t *r, mica_window_t *w) {
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    if (x->rank != 4 || y->rank != 4 || x->dims[0] != 1 || y->dims[0] != 1) {
        mica_load_require(r, false, MICA_ERR_SHAPE, "input and output want the shape [1, H, W, C]");
        return;
    }
    uint16_t v[8];
    for (uint32_t i = 0; i < 8; ++i) {
        v[i] = (uint16_t)mica_load_param(r, i, i < 6 ? 1 : 0, MICA_MAX_DIM);
    }
    *w = (mica_window_t) {
        .in_h = (uint16_t)x->dims[1], .in_w = (uint16_t)x->dims[2], .in_c = (uint16_t)x->dims[3],
        .out_h = (uint16_t)y->dims[1], .out_w = (uint16_t)y->dims[2], .out_c = (uint16_t)y->dims[3],
        .kernel_h = v[0], .kernel_w = v[1], .stride_h = v[2], .stride_w = v[3],
        .dilation_h = v[4], .dilation_w = v[5], .pad_top = v[6], .pad_left = v[7],
    };
}

uint32_t mica_load_blob_bytes(const mica_step_record_t *r, uint32_t i) {
    return mica_u32(r->record + MICA_STEP_BLOBS + 8 * i + 4);
}

const void *mica_load_blob(mica_step_record_t *r, uint32_t i, size_t bytes, uint32_t align) {
    const mica_section_t *data = &r->m->file.s[MICA_KIND_DATA];
    uint32_t field = MICA_STEP_BLOBS + 8 * i;
    uint32_t offset = mica_u32(r->record + field), found = mica_load_blob_bytes(r, i);
    if (!mica_load_ok(r)) {
        return NULL;
    }
    if (found != bytes) {
        mica_record_fail(r, MICA_ERR_STEP, "bytes of a constant", field, found, (uint32_t)bytes);
    } else if (offset % align) {
        mica_record_fail(r, MICA_ERR_ALIGN, "a constant is not aligned", field, offset, align);
    } else if (offset > data->bytes || found > data->bytes - offset) {
        mica_record_fail(r, MICA_ERR_BOUNDS, "a constant passes the end of DATA", field, offset, data->bytes);
    }
    if (!mica_load_ok(r)) {
        return NULL;
    }
    return r->blobs != NULL ? r->blobs[i] : r->m->file.base + data->offset + offset;
}

uint8_t mica_load_layout(mica_step_record_t *r, uint32_t layouts) {
    uint8_t found = r->layout;
    if (found >= 32 || !(layouts >> found & 1)) {
        return MICA_LAYOUT_PLAIN;  // load_step() refuses what is left in r->layout
    }
    #ifdef MICA_WITHOUT_CODES4
    if (found == MICA_LAYOUT_CODES4) {
        mica_record_fail(r, MICA_ERR_FEATURE, "this build has no weights of 4 bits", MICA_STEP_LAYOUT, 0, 0);
    }
    #endif
    r->layout = MICA_LAYOUT_PLAIN;
    return found;
}

void mica_load_channels(mica_step_record_t *r, mica_channels_t *ch, size_t weights_bytes, uint32_t n) {
    ch->weights = mica_load_blob(r, 0, weights_bytes, MICA_ALIGN);
    ch->table = NULL;
    if (MICA_CODED(ch->layout) && ch->weights != NULL) {
        ch->table = ch->weights;
        ch->weights += MICA_CODES;
    }
    ch->bias = mica_load_blob(r, 1, (size_t)n * 4, MICA_BLOB_ALIGN);
    ch->mult = mica_load_blob(r, 2, (size_t)n * 4, MICA_BLOB_ALIGN);
    ch->shift = mica_load_blob(r, 3, n, MICA_BLOB_ALIGN);
    ch->y_zero = (int8_t)r->y.zero_point;
    ch->fast = r->fast;
    r->fast = false;
}

bool mica_load_rows(mica_step_record_t *r, uint32_t *rows, uint16_t *in_n, uint16_t *out_n) {
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    bool alike = x->rank == y->rank && y->rank >= 1;
    *rows = 1;
    for (uint32_t i = 0; alike && i + 1 < y->rank; ++i) {
        alike = x->dims[i] == y->dims[i];
        *rows *= y->dims[i];
    }
    if (alike) {
        *in_n = (uint16_t)x->dims[x->rank - 1];
        *out_n = (uint16_t)y->dims[y->rank - 1];
    }
    return mica_load_require(r, alike, MICA_ERR_SHAPE, "input and output differ before their last dimension");
}

bool mica_load_same_shape(mica_step_record_t *r) {
    bool same = r->x[0].rank == r->y.rank;
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        same = same && r->x[0].dims[i] == r->y.dims[i];
    }
    return mica_load_require(r, same, MICA_ERR_SHAPE, "input and output differ in shape");
}

bool mica_load_same_scale(mica_step_record_t *r) {
    bool same = r->x[0].zero_point == r->y.zero_point && r->x[0].scale >= r->y.scale && r->x[0].scale <= r->y.scale;
    return mica_load_require(r, same, MICA_ERR_RANGE, "input and output differ in scale or zero point");
}

uint32_t mica_load_sound(mica_step_record_t *r, const mica_tensor_t *t, uint32_t inner) {
    uint32_t n = 1;
    bool sound = t->rank >= inner;
    for (uint32_t i = 0; sound && i < t->rank; ++i) {
        sound = i + inner >= t->rank || t->dims[i] == 1;
        n *= t->dims[i];
    }
    return mica_load_require(r, sound, MICA_ERR_SHAPE, "the samples of one sound, and rows of one sound, are expected")
        ? n : 0;
}

uint32_t mica_load_frames(mica_step_record_t *r, const int8_t **noise, int8_t *noise_zero) {
    const mica_tensor_t *kept = &r->x[1];
    const uint32_t rows = r->y.dims[r->y.rank - 2], bands = r->y.dims[r->y.rank - 1];
    *noise = NULL;
    *noise_zero = 0;
    if (r->n_inputs < 2) {
        return rows;
    }
    *noise = kept->data;
    *noise_zero = (int8_t)kept->zero_point;
    const bool sound = rows > 4 && kept->rank >= 2 && kept->dims[kept->rank - 2] == 4
        && kept->dims[kept->rank - 1] == bands && kept->bytes == 4u * bands;
    return mica_load_require(r, sound, MICA_ERR_SHAPE, "the noise is none of the bands") ? rows - 4 : 0;
}

bool mica_load_scratch(mica_step_record_t *r, uint32_t least) {
    const uint32_t scratch = mica_u32(r->record + MICA_STEP_SCRATCH_MIN);
    if (mica_load_ok(r) && scratch < least) {
        mica_record_fail(r, MICA_ERR_STEP, "scratch", MICA_STEP_SCRATCH_MIN, scratch, least);
    }
    return mica_load_ok(r);
}

void mica_load_split(mica_step_record_t *r, uint32_t axis, uint32_t axes, uint32_t *outer, uint32_t *n,
    uint32_t *inner) {
    *outer = *n = *inner = 1;
    for (uint32_t i = 0; i < r->x[0].rank; ++i) {
        uint32_t *part = i < axis ? outer : i < axis + axes ? n : inner;
        *part *= r->x[0].dims[i];
    }
}

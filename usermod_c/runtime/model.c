// mica: what is asked of a loaded model. Everything read here is validated again, because the file may have changed
// since it was loaded: names and addresses stay inside whatever it holds.
#include <string.h>

#include "model.h"

const char *mica_string(const mica_file_t *f, uint32_t offset) {
    const mica_section_t *s = &f->s[MICA_KIND_STRINGS];
    const char *strings = (const char *)f->base + s->offset;
    // The last byte is a zero, so every string that begins in the section ends in it.
    return offset < s->bytes && strings[s->bytes - 1] == 0 ? strings + offset : NULL;
}

static bool zero_point_fits(int32_t zero, uint32_t dtype) {
    switch (dtype) {
        case MICA_DTYPE_INT8:
            return zero >= INT8_MIN && zero <= INT8_MAX;
        case MICA_DTYPE_UINT8:
            return zero >= 0 && zero <= UINT8_MAX;
        case MICA_DTYPE_INT16:
            return zero >= INT16_MIN && zero <= INT16_MAX;
        case MICA_DTYPE_FLOAT32:
            return zero == 0;
        default:
            return true;
    }
}

uint32_t mica_element_bytes(uint32_t dtype) {
    switch (dtype) {
        case MICA_DTYPE_INT8:
        case MICA_DTYPE_UINT8:
            return 1;
        case MICA_DTYPE_INT16:
            return 2;
        case MICA_DTYPE_INT32:
        case MICA_DTYPE_FLOAT32:
            return 4;
        default:
            return 0;
    }
}

// May a tensor be kept by rows? Of a file with strips, a picture may.
static bool has_rows(const mica_model_t *m, const mica_tensor_t *t) {
    return m->file.s[MICA_KIND_ORDER].offset != 0 && t->rank == 4 && t->dims[0] == 1;
}

mica_status_t mica_read_tensor(const mica_model_t *m, uint32_t id, mica_tensor_t *t, mica_error_t *err) {
    const uint8_t *r = mica_record(&m->file, MICA_KIND_TENSORS, id);
    uint32_t at = mica_at(&m->file, r), scale = mica_u32(r + MICA_TENSOR_SCALE),
        offset = mica_u32(r + MICA_TENSOR_OFFSET);
    int32_t before = err->tensor;
    err->tensor = (int32_t)id;
    *t = (mica_tensor_t) {
        .name = mica_string(&m->file, mica_u32(r + MICA_TENSOR_NAME)),
        .dtype = r[MICA_TENSOR_DTYPE],
        .rank = r[MICA_TENSOR_RANK],
        .space = r[MICA_TENSOR_SPACE],
        .zero_point = (int32_t)mica_u32(r + MICA_TENSOR_ZERO_POINT),
        .bytes = mica_u32(r + MICA_TENSOR_BYTES),
    };
    memcpy(&t->scale, &scale, sizeof(scale));
    if (t->name == NULL) {
        return mica_fail(err, MICA_ERR_BOUNDS, "name passes the end of STRINGS", at, 0,
            m->file.s[MICA_KIND_STRINGS].bytes);
    }
    uint64_t bytes = mica_element_bytes(t->dtype);
    if (bytes == 0) {
        return mica_fail(err, MICA_ERR_TENSOR, "element type", at + MICA_TENSOR_DTYPE, t->dtype, MICA_DTYPE_INT8);
    }
    if (t->rank > MICA_MAX_RANK) {
        return mica_fail(err, MICA_ERR_TENSOR, "rank", at + MICA_TENSOR_RANK, t->rank, MICA_MAX_RANK);
    }
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        uint32_t n = mica_u32(r + MICA_TENSOR_DIMS + 4 * i);
        if (n == 0 || n > MICA_MAX_DIM || (i >= t->rank && n != 1)) {
            return mica_fail(err, MICA_ERR_TENSOR, "a dimension", at + MICA_TENSOR_DIMS + 4 * i, n,
                i < t->rank ? MICA_MAX_DIM : 1);
        }
        t->dims[i] = n;
        bytes = bytes > MICA_MAX_BYTES ? bytes : bytes * n;
    }
    if (bytes != t->bytes) {
        return mica_fail(err, MICA_ERR_TENSOR, "bytes are not those of the shape", at + MICA_TENSOR_BYTES, t->bytes,
            bytes > MICA_MAX_BYTES ? MICA_MAX_BYTES : (uint32_t)bytes);
    }
    // Sign clear, exponent not all ones, not zero: finite and positive, without floating-point code.
    if (scale == 0 || scale >= 0x7f800000) {
        return mica_fail(err, MICA_ERR_TENSOR, "scale is not finite and positive", at + MICA_TENSOR_SCALE, scale, 0);
    }
    if (!zero_point_fits(t->zero_point, t->dtype)) {
        return mica_fail(err, MICA_ERR_TENSOR, "zero point", at + MICA_TENSOR_ZERO_POINT, (uint32_t)t->zero_point, 0);
    }
    uint8_t *space;
    uint32_t space_bytes;
    if (t->space == MICA_SPACE_ARENA) {
        space = m->arena;
        space_bytes = m->info.arena_bytes;
    } else if (t->space == MICA_SPACE_STATE) {
        space = m->state;
        space_bytes = m->info.state_bytes;
    } else if (t->space == MICA_SPACE_DATA) {
        space = (uint8_t *)(uintptr_t)m->file.base + m->file.s[MICA_KIND_DATA].offset;  // read only, says mica.h
        space_bytes = m->file.s[MICA_KIND_DATA].bytes;
    } else if (t->space == MICA_SPACE_ROWS && has_rows(m, t)) {
        space = m->arena;
        space_bytes = m->info.arena_bytes;
    } else {
        return mica_fail(err, MICA_ERR_TENSOR, "space", at + MICA_TENSOR_SPACE, t->space, MICA_SPACE_DATA);
    }
    if (offset % MICA_BLOB_ALIGN) {
        return mica_fail(err, MICA_ERR_ALIGN, "offset is not aligned", at + MICA_TENSOR_OFFSET, offset,
            MICA_BLOB_ALIGN);
    }
    // What is there of a tensor that is kept by rows, the calls of ORDER say.
    if (offset > space_bytes || (t->space != MICA_SPACE_ROWS && t->bytes > space_bytes - offset)) {
        return mica_fail(err, MICA_ERR_BOUNDS, "passes the end of its space", at + MICA_TENSOR_OFFSET, offset,
            space_bytes);
    }
    t->data = space + offset;
    err->tensor = before;
    return MICA_OK;
}

bool mica_tensor(const mica_model_t *m, uint32_t id, mica_tensor_t *out) {
    mica_error_t ignored = { .step = -1, .tensor = -1 };
    if (id >= m->info.n_tensors || mica_read_tensor(m, id, out, &ignored) != MICA_OK) {
        return false;
    }
    if (out->space == MICA_SPACE_ROWS) {
        const mica_rows_t *t = &m->order->tensors[id];
        out->data = t->data;
        out->bytes = t->some ? (uint32_t)(t->have - t->first) * t->row_bytes : 0;
    }
    return true;
}

void mica_step_info(const mica_model_t *m, uint32_t i, mica_step_info_t *out) {
    const uint8_t *r = mica_record(&m->file, MICA_KIND_STEPS, i);
    const char *name = mica_string(&m->file, mica_u32(r + MICA_STEP_NAME));
    *out = (mica_step_info_t) {
        .name = name ? name : "",
        .kernel = (uint16_t)mica_u16(r + MICA_STEP_KERNEL),
        .flags = r[MICA_STEP_FLAGS],
        .layout = r[MICA_STEP_LAYOUT],
        .macs = mica_u32(r + MICA_STEP_MACS),
        .scratch_min = mica_u32(r + MICA_STEP_SCRATCH_MIN),
        .scratch_want = mica_u32(r + MICA_STEP_SCRATCH_WANT),
    };
    for (uint32_t k = 0; k < MICA_MAX_INPUTS; ++k) {
        out->inputs[k] = (uint16_t)mica_u16(r + MICA_STEP_INPUTS + 2 * k);
    }
    for (uint32_t k = 0; k < MICA_MAX_OUTPUTS; ++k) {
        out->outputs[k] = (uint16_t)mica_u16(r + MICA_STEP_OUTPUTS + 2 * k);
    }
}

int32_t mica_step_param(const mica_model_t *m, uint32_t i, uint32_t k) {
    return (int32_t)mica_u32(mica_record(&m->file, MICA_KIND_STEPS, i) + MICA_STEP_PARAMS + 4 * k);
}

const void *mica_step_constant(const mica_model_t *m, uint32_t i, uint32_t k, uint32_t *bytes) {
    const mica_section_t *data = &m->file.s[MICA_KIND_DATA];
    const uint8_t *r = mica_record(&m->file, MICA_KIND_STEPS, i) + MICA_STEP_BLOBS + 8 * k;
    uint32_t offset = mica_u32(r);
    *bytes = mica_u32(r + 4);
    bool sound = offset % MICA_BLOB_ALIGN == 0 && offset <= data->bytes && *bytes <= data->bytes - offset;
    return sound ? m->file.base + data->offset + offset : NULL;
}

static uint16_t io_id(const mica_model_t *m, uint32_t role, uint32_t i) {
    for (uint32_t k = 0; k < mica_count(&m->file, MICA_KIND_IO); ++k) {
        const uint8_t *r = mica_record(&m->file, MICA_KIND_IO, k);
        if (mica_u16(r + MICA_IO_ROLE) == role && i-- == 0) {
            return (uint16_t)mica_u16(r + MICA_IO_TENSOR);
        }
    }
    return MICA_NO_TENSOR;
}

uint16_t mica_input_id(const mica_model_t *m, uint32_t i) {
    return io_id(m, 0, i);
}

uint16_t mica_output_id(const mica_model_t *m, uint32_t i) {
    return io_id(m, 1, i);
}

const char *mica_metadata(const mica_model_t *m, const char *key) {
    for (uint32_t i = 0; i < mica_count(&m->file, MICA_KIND_METADATA); ++i) {
        const uint8_t *r = mica_record(&m->file, MICA_KIND_METADATA, i);
        const char *k = mica_string(&m->file, mica_u32(r + MICA_METADATA_KEY));
        if (k != NULL && strcmp(k, key) == 0) {
            return mica_string(&m->file, mica_u32(r + MICA_METADATA_VALUE));
        }
    }
    return NULL;
}

uint32_t mica_golden_bytes(const mica_model_t *m) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < mica_count(&m->file, MICA_KIND_IO); ++i) {
        mica_tensor_t t;
        mica_error_t ignored = { .step = -1, .tensor = -1 };
        const uint32_t id = mica_u16(mica_record(&m->file, MICA_KIND_IO, i) + MICA_IO_TENSOR);
        // All rows, also of an input that is kept by rows.
        if (id >= m->info.n_tensors || mica_read_tensor(m, id, &t, &ignored) != MICA_OK
            || t.bytes > m->file.s[MICA_KIND_GOLDEN].bytes) {
            return 0;
        }
        bytes += (t.bytes + 3) & ~(uint32_t)3;
        if (bytes > m->file.s[MICA_KIND_GOLDEN].bytes) {
            return 0;
        }
    }
    return bytes;
}

uint32_t mica_golden_count(const mica_model_t *m) {
    uint32_t one = mica_golden_bytes(m);
    return one ? m->file.s[MICA_KIND_GOLDEN].bytes / one : 0;
}

const uint8_t *mica_golden(const mica_model_t *m, uint32_t i) {
    uint32_t one = mica_golden_bytes(m);
    if (one == 0 || i >= m->file.s[MICA_KIND_GOLDEN].bytes / one) {
        return NULL;
    }
    return m->file.base + m->file.s[MICA_KIND_GOLDEN].offset + (size_t)i * one;
}

const uint8_t *mica_golden_crcs(const mica_model_t *m, uint32_t i) {
    const mica_section_t *s = &m->file.s[MICA_KIND_LAYER_CRCS];
    uint64_t row = (uint64_t)m->info.n_steps * 4;
    // Not by the number of vectors, which comes from tensors that may have changed; load.c saw that both agree.
    return row != 0 && (i + (uint64_t)1) * row <= s->bytes ? m->file.base + s->offset + (size_t)i * (size_t)row : NULL;
}

const mica_info_t *mica_model_info(const mica_model_t *m) {
    return &m->info;
}

void mica_set_fetch(mica_model_t *m, const mica_fetch_t *fetch) {
    for (uint32_t i = 0; i < m->info.n_steps; ++i) {
        mica_step_info_t info;
        mica_step_info(m, i, &info);
        if (info.kernel == MICA_KERNEL_FULLY_CONNECTED_S8) {
            m->steps[i].p.fully_connected.fetch = fetch;
        }
    }
}

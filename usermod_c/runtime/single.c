// mica: a kernel on buffers, without a file.
#include <string.h>

#include "model.h"
#ifndef MICA_WITHOUT_RAW

static void put_u32(uint8_t *to, uint32_t v) {
    for (uint32_t i = 0; i < 4; ++i) {
        to[i] = (uint8_t)(v >> 8 * i);
    }
}

// Fails unless the buffer of an operand is as long as its shape says.
static void check_length(mica_step_record_t *r, const mica_tensor_t *t, const char *what) {
    uint64_t bytes = 1;
    for (uint32_t i = 0; i < t->rank && bytes <= MICA_MAX_BYTES; ++i) {
        bytes *= t->dims[i];
    }
    if (mica_load_ok(r) && bytes != t->bytes) {
        mica_record_fail(r, MICA_ERR_SHAPE, what, 0, t->bytes, bytes > MICA_MAX_BYTES ? UINT32_MAX : (uint32_t)bytes);
    }
}

// Operands and constants of one call: their number, types, lengths and places.
static mica_status_t check_buffers(mica_step_record_t *r, const mica_single_t *c, const mica_kernel_facts_t *facts) {
    if (facts->x_type != MICA_DTYPE_INT8 || facts->last_type != MICA_DTYPE_INT8 || facts->y_type != MICA_DTYPE_INT8
        || c->n_inputs < facts->least || c->n_inputs > facts->most) {
        return mica_record_fail(r, MICA_ERR_STEP, "the kernel takes other inputs", MICA_STEP_INPUTS, 0, 0);
    }
    check_length(r, &c->y, "bytes of the output");
    for (uint32_t i = 0; i < c->n_inputs; ++i) {
        check_length(r, &c->x[i], "bytes of an input");
    }
    const uint8_t *y = c->y.data;
    bool apart = true;
    for (uint32_t i = 0; i < MICA_MAX_BLOBS; ++i) {
        const uint8_t *blob = c->blobs[i];
        apart = apart && (blob >= y + c->y.bytes || y >= blob + c->blob_bytes[i]);
    }
    mica_load_require(r, apart, MICA_ERR_OVERLAP, "the output shares bytes with a constant");
    return mica_load_ok(r) ? mica_load_inputs(r, facts->in_place) : r->err->status;
}

mica_status_t mica_run_single(const mica_single_t *c, mica_error_t *err) {
    *err = (mica_error_t) { .step = -1, .tensor = -1 };
    uint8_t record[MICA_SIZEOF_STEP] = { 0 };
    for (uint32_t i = 0; i < MICA_MAX_PARAMS; ++i) {
        put_u32(record + MICA_STEP_PARAMS + 4 * i, (uint32_t)c->params[i]);
    }
    for (uint32_t i = 0; i < MICA_MAX_BLOBS; ++i) {
        put_u32(record + MICA_STEP_BLOBS + 8 * i + 4, c->blob_bytes[i]);
    }
    mica_model_t m = { .file = { .base = record } };
    m.file.s[MICA_KIND_DATA].bytes = MICA_MAX_BYTES;
    mica_step_record_t rec = { .m = &m, .record = record, .err = err, .blobs = c->blobs, .n_inputs = c->n_inputs,
        .y = c->y };
    memcpy(rec.x, c->x, sizeof(rec.x));
    mica_step_loader_t loader = mica_step_loader(c->kernel);
    mica_kernel_facts_t facts;
    if (loader == NULL || !mica_kernel_facts(c->kernel, &facts)) {
        return mica_record_fail(&rec, MICA_ERR_KERNEL, "kernel", MICA_STEP_KERNEL, c->kernel, 0);
    }
    if (check_buffers(&rec, c, &facts) != MICA_OK) {
        return err->status;
    }
    if (mica_scratch_min(c->kernel, rec.y.rank ? rec.y.dims[rec.y.rank - 1] : 1, 0) != 0) {
        return mica_record_fail(&rec, MICA_ERR_STEP, "the kernel wants scratch", MICA_STEP_SCRATCH_MIN, 0, 0);
    }
    mica_step_t step = { .run = NULL };
    rec.fast = true;  // where the constants allow it
    loader(&rec, &step);
    if (!mica_load_ok(&rec)) {
        *err = (mica_error_t) { .step = -1, .tensor = -1 };
        rec.fast = false;
        loader(&rec, &step);
    }
    if (mica_load_ok(&rec)) {
        step.run(&step, 0, UINT32_MAX, NULL, 0);
    }
    return err->status;
}

#endif

// What CBMC proves of the loader, one function at a time: no access outside of the file, no overflow, and what a caller
// may count on.
// A file has any length up to MICA_MAX_BYTES and any bytes. cbmc.py names the functions.
#include <stdlib.h>

#define mica_record whole_mica_record
#include "model.h"
#undef mica_record

size_t nondet_size(void);
uint32_t nondet_u32(void);

// mica_record() by its contract, for i below the table's count: any place at which so many bytes lie in the file. The
// theorem `record` proves it; a product of 32 bits is nothing for CBMC.
static const uint8_t *mica_record(const mica_file_t *f, uint32_t kind, uint32_t i) {
    const uint32_t bytes = kind == MICA_KIND_TENSORS ? MICA_SIZEOF_TENSOR : kind == MICA_KIND_STEPS ? MICA_SIZEOF_STEP
        : kind == MICA_KIND_IO ? MICA_SIZEOF_IO : kind == MICA_KIND_METADATA ? MICA_SIZEOF_METADATA : MICA_SIZEOF_ORDER;
    const uint32_t offset = nondet_u32();
    (void)i;
    __CPROVER_assume(offset <= f->file_bytes && f->file_bytes - offset >= bytes);
    return f->base + offset;
}

#include "check.c"
#include "error.c"
#include "model.c"
#include "record.c"

static uint8_t *any_file(size_t *len) {
    *len = nondet_size();
    __CPROVER_assume(*len <= MICA_MAX_BYTES);
    uint8_t *file = malloc(*len);
    __CPROVER_assume(file != NULL);
    return file;
}

// A file whose section table mica_scan has accepted: sections lie inside the file.
static void any_sections(mica_file_t *f) {
    size_t len;
    f->base = any_file(&len);
    f->file_bytes = (uint32_t)len;
    for (uint32_t k = 0; k <= MICA_MAX_KIND; ++k) {
        f->s[k].offset = nondet_u32();
        f->s[k].bytes = nondet_u32();
        __CPROVER_assume((uint64_t)f->s[k].offset + f->s[k].bytes <= len);
    }
}

// A step's record in the file.
static const uint8_t *any_step(const mica_file_t *f) {
    const uint32_t offset = nondet_u32();
    __CPROVER_assume(offset <= f->file_bytes && f->file_bytes - offset >= MICA_SIZEOF_STEP);
    return f->base + offset;
}

// Any file, without its checksum, whose loop reads each byte once.
void prove_header(void) {
    size_t len;
    mica_error_t err;
    const uint8_t *file = any_file(&len);
    if (check_header(file, len, false, &err) == MICA_OK) {
        __CPROVER_assert(len >= MICA_SIZEOF_HEADER, "a whole header");
        __CPROVER_assert(mica_u32(file + MICA_HEADER_FILE_BYTES) <= len, "file_bytes");
        const uint32_t header_bytes = mica_u16(file + MICA_HEADER_HEADER_BYTES);
        __CPROVER_assert(header_bytes <= mica_u32(file + MICA_HEADER_FILE_BYTES), "header_bytes");
        __CPROVER_assert(mica_u32(file + MICA_HEADER_ARENA_BYTES) <= MICA_MAX_BYTES, "arena_bytes");
    }
}

// A constant that a loader is given lies inside DATA, whole and aligned, or is null.
void prove_blob(void) {
    mica_model_t m;
    mica_error_t err;
    any_sections(&m.file);
    mica_step_record_t r = { .m = &m, .record = any_step(&m.file), .err = &err };
    const uint32_t i = nondet_u32(), align = nondet_u32();
    const size_t bytes = nondet_size();
    __CPROVER_assume(i < 6 && (align == 4 || align == 16));
    const uint8_t *blob = mica_load_blob(&r, i, bytes, align);
    if (blob != NULL) {
        const uint8_t *data = m.file.base + m.file.s[MICA_KIND_DATA].offset;
        const size_t at = (size_t)(blob - data);
        __CPROVER_assert(blob >= data && at + bytes <= m.file.s[MICA_KIND_DATA].bytes, "inside DATA");
        __CPROVER_assert(at % align == 0, "aligned");
    }
}

// A parameter that a loader is given is in its range; otherwise the step is refused and the number is 0.
void prove_param(void) {
    mica_model_t m;
    mica_error_t err;
    any_sections(&m.file);
    mica_step_record_t r = { .m = &m, .record = any_step(&m.file), .err = &err };
    const uint32_t i = nondet_u32();
    const int32_t low = (int32_t)nondet_u32(), high = (int32_t)nondet_u32();
    __CPROVER_assume(i < 16 && low <= high);
    const int32_t v = mica_load_param(&r, i, low, high);
    __CPROVER_assert(mica_load_ok(&r) ? v >= low && v <= high : v == 0, "in its range");
}

// A string at any offset is refused or lies inside STRINGS.
void prove_string(void) {
    mica_file_t f;
    any_sections(&f);
    const char *s = mica_string(&f, nondet_u32());
    if (s != NULL) {
        const uint8_t *strings = f.base + f.s[MICA_KIND_STRINGS].offset;
        __CPROVER_assert((size_t)((const uint8_t *)s - strings) < f.s[MICA_KIND_STRINGS].bytes, "inside STRINGS");
    }
}

// A window has no 0 among its sizes, strides and dilations, where the tensors' shapes have none.
void prove_window(void) {
    mica_model_t m;
    mica_error_t err = { 0 };
    mica_window_t w;
    any_sections(&m.file);
    mica_step_record_t r = { .m = &m, .record = any_step(&m.file), .err = &err };
    mica_tensor_t x, y;  // any
    r.x[0] = x;
    r.y = y;
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        __CPROVER_assume(r.y.dims[i] >= 1 && r.y.dims[i] <= MICA_MAX_DIM && r.x[0].dims[i] >= 1);
        __CPROVER_assume(r.x[0].dims[i] <= MICA_MAX_DIM);
    }
    mica_load_window(&r, &w);
    if (mica_load_ok(&r)) {
        __CPROVER_assert(w.in_h == r.x[0].dims[1] && w.in_w == r.x[0].dims[2] && w.in_c == r.x[0].dims[3], "input");
        __CPROVER_assert(w.out_h == r.y.dims[1] && w.out_w == r.y.dims[2] && w.out_c == r.y.dims[3], "output");
        __CPROVER_assert(w.kernel_h && w.kernel_w && w.stride_h && w.stride_w && w.dilation_h && w.dilation_w, "no 0");
    }
}

// A constant that somebody asks for later lies inside DATA, or is null.
void prove_constant(void) {
    mica_model_t m;
    uint32_t bytes;
    const uint32_t k = nondet_u32();
    any_sections(&m.file);
    __CPROVER_assume(k < MICA_MAX_BLOBS);
    const uint8_t *at = mica_step_constant(&m, nondet_u32(), k, &bytes);
    if (at != NULL) {
        const uint8_t *data = m.file.base + m.file.s[MICA_KIND_DATA].offset;
        __CPROVER_assert(at >= data && (size_t)(at - data) + bytes <= m.file.s[MICA_KIND_DATA].bytes, "inside DATA");
    }
}

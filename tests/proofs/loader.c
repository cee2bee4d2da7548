// What CBMC proves of the loader, one function at a time: no access outside of the file, no overflow, and what a caller
// may count on.
// A file has any length up to MICA_MAX_BYTES and any bytes. cbmc.py names the functions.
#include "any.h"
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
    __CPROVER_assume(i < 16);
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

// --- a step's record and its operands

// A tensor that mica_read_tensor has accepted: every dimension is 1 or more, and 1 behind the rank.
static void any_shape(mica_tensor_t *t) {
    mica_tensor_t found;  // any
    *t = found;
    __CPROVER_assume(t->rank <= MICA_MAX_RANK);
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        __CPROVER_assume(t->dims[i] >= 1 && t->dims[i] <= MICA_MAX_DIM && (i < t->rank || t->dims[i] == 1));
    }
}

// A step of any file whose section table mica_scan has accepted, with any operands. *err is any too.
static mica_step_record_t any_record(mica_model_t *m, mica_error_t *err) {
    any_sections(&m->file);
    mica_step_record_t r = { .m = m, .record = any_step(&m->file), .err = err };
    for (uint32_t k = 0; k < MICA_MAX_INPUTS; ++k) {
        any_shape(&r.x[k]);
    }
    any_shape(&r.y);
    r.n_inputs = nondet_u32();
    r.layout = (uint8_t)nondet_u32();
    r.fast = nondet_u32() & 1;
    __CPROVER_assume(r.n_inputs <= MICA_MAX_INPUTS);
    return r;
}

#define RECORD \
    mica_model_t m; \
    mica_error_t err; \
    mica_step_record_t r = any_record(&m, &err)

// Factors and clamps that a kernel is given are in the ranges of the format, or the step is refused.
void prove_ranges(void) {
    RECORD;
    const uint32_t i = nondet_u32();
    int32_t mult;
    int8_t shift, low, high;
    int16_t least, most;
    __CPROVER_assume(i < MICA_MAX_PARAMS - 1);
    mica_load_requant(&r, i, &mult, &shift);
    mica_load_act(&r, i, &low, &high);
    mica_load_wide(&r, i, &least, &most);
    if (mica_load_ok(&r)) {
        __CPROVER_assert(mult >= 0 && shift >= -30 && shift <= 31, "a factor");
        __CPROVER_assert(least <= most, "limits of int16");
        __CPROVER_assert(r.y.dtype != MICA_DTYPE_INT16 || r.y.zero_point == 0, "a zero point of int16");
    }
}

// The layout of weights is one that the kernel asked for, or PLAIN.
void prove_layout(void) {
    RECORD;
    const uint32_t layouts = nondet_u32(), found = mica_load_layout(&r, layouts);
    __CPROVER_assert(found == MICA_LAYOUT_PLAIN || (found < 32 && (layouts >> found & 1)), "one that was asked for");
    __CPROVER_assert(found == MICA_LAYOUT_PLAIN || r.layout == MICA_LAYOUT_PLAIN, "it is asked for once");
}

// A step whose scratch is asked for has as much.
void prove_scratch(void) {
    RECORD;
    const uint32_t least = nondet_u32();
    if (mica_load_scratch(&r, least)) {
        __CPROVER_assert(mica_u32(r.record + MICA_STEP_SCRATCH_MIN) >= least, "scratch");
    }
}

// Shapes that are said to be alike are.
void prove_shapes(void) {
    RECORD;
    uint32_t rows;
    uint16_t in_n, out_n;
    const uint32_t i = nondet_u32();
    __CPROVER_assume(i < MICA_MAX_RANK);
    if (mica_load_rows(&r, &rows, &in_n, &out_n)) {
        __CPROVER_assert(r.x[0].rank == r.y.rank && r.y.rank >= 1, "rank");
        __CPROVER_assert(i + 1 >= r.y.rank || r.x[0].dims[i] == r.y.dims[i], "a dimension before the last");
        __CPROVER_assert(in_n == r.x[0].dims[r.y.rank - 1] && out_n == r.y.dims[r.y.rank - 1], "the last");
    }
    if (mica_load_same_shape(&r)) {
        __CPROVER_assert(r.x[0].rank == r.y.rank && r.x[0].dims[i] == r.y.dims[i], "a dimension");
    }
    if (mica_load_same_scale(&r)) {
        __CPROVER_assert(r.x[0].zero_point == r.y.zero_point, "the zero point");
    }
}

// A sound is one: all dimensions but the last are 1; and noise is of y's bands.
void prove_sound(void) {
    RECORD;
    const int8_t *noise;
    int8_t zero;
    const uint32_t samples = mica_load_sound(&r, &r.x[0], 1);
    if (mica_load_ok(&r)) {
        __CPROVER_assert(r.x[0].rank >= 1 && samples == r.x[0].dims[r.x[0].rank - 1], "samples");
    }
    __CPROVER_assume(r.y.rank >= 2);  // mica_load_sound(r, &r->y, 2) has returned true
    const uint32_t frames = mica_load_frames(&r, &noise, &zero), rows = r.y.dims[r.y.rank - 2];
    if (mica_load_ok(&r)) {
        __CPROVER_assert(frames >= 1 && frames == (noise != NULL || r.n_inputs >= 2 ? rows - 4 : rows), "frames");
        __CPROVER_assert(noise == NULL || r.x[1].bytes == 4 * r.y.dims[r.y.rank - 1], "noise");
    }
}

// Three products of an input's dimensions: every dimension is in one of them.
void prove_split(void) {
    RECORD;
    const uint32_t axis = nondet_u32(), axes = nondet_u32();
    uint32_t outer, n, inner, ones = 0;
    __CPROVER_assume(axis < MICA_MAX_RANK && axes <= MICA_MAX_RANK);
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        r.x[0].dims[i] = 2;  // a power of two counts the factors
    }
    mica_load_split(&r, axis, axes, &outer, &n, &inner);
    const uint32_t rank = r.x[0].rank, before = axis < rank ? axis : rank;
    const uint32_t end = axis + axes < rank ? axis + axes : rank;
    __CPROVER_assert(outer == 1u << before && n == 1u << (end - before) && inner == 1u << (rank - end), "factors");
}

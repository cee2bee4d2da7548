// What CBMC proves of the loader's tables, whose loops have no limit that CBMC could unroll. A loop is cut: what holds
// before each iteration is asserted, then anything of which it is true is assumed, and one iteration leads to it again.
// A function by its contract asserts what it is given, and assumes what its own theorem says. cbmc.py puts both into a
// copy of the sources.
#include "loader.c"

// --- contracts

// A constant: null, or whole and aligned in DATA (load_blob). `blob` is set where one is asked for.
static const uint8_t *some_blob(const mica_step_record_t *r, uint32_t i, size_t bytes, uint32_t align) {
    const mica_section_t *data = &r->m->file.s[MICA_KIND_DATA];
    const uint32_t offset = nondet_u32();
    __CPROVER_assert(i < MICA_MAX_BLOBS && (align == MICA_ALIGN || align == MICA_BLOB_ALIGN), "a constant's place");
    if (nondet_bool()) {
        r->err->status = MICA_ERR_STEP;
        return NULL;
    }
    __CPROVER_assume(offset % align == 0 && offset <= data->bytes && bytes <= data->bytes - offset);
    return r->m->file.base + data->offset + offset;
}

// A product of a tensor's bytes so far and a dimension: no overflow, so it is not less than either.
static uint64_t some_product(uint64_t a, uint64_t b) {
    const uint64_t product = nondet_u64();
    __CPROVER_assert(a >= 1 && a <= MICA_MAX_BYTES && b >= 1 && b <= MICA_MAX_DIM, "factors");
    __CPROVER_assume(product >= a && product >= b);
    return product;
}

uint32_t __CPROVER_uninterpreted_count(uint32_t bytes, uint32_t record_bytes);

// mica_count(): the quotient is one number for one table.
static uint32_t some_count(const mica_file_t *f, uint32_t kind) {
    const mica_section_t *s = &f->s[kind];
    __CPROVER_assert(s->offset == 0 || s->record_bytes != 0, "records are not empty");
    return s->offset ? __CPROVER_uninterpreted_count(s->bytes, s->record_bytes) : 0;
}

// The checksum of n bytes that may be read.
uint32_t mica_crc32(uint32_t crc, const void *bytes, size_t n) {
    (void)crc;
    __CPROVER_assert(n == 0 || __CPROVER_r_ok(bytes, n), "bytes of a checksum");
    return nondet_u32();
}

// --- the section table

// Sections that were read so far lie between the header and `end`, and records are as large as this version's.
static bool scanned(const mica_file_t *f, uint64_t end) {
    bool sound = end >= MICA_SIZEOF_HEADER && end <= f->file_bytes;
    for (uint32_t k = 1; k <= MICA_MAX_KIND; ++k) {
        const mica_section_t *s = &f->s[k];
        const bool inside = s->offset % MICA_ALIGN == 0 && (uint64_t)s->offset + s->bytes <= end
            && s->record_bytes >= known_record_bytes(k) && s->record_bytes != 0;
        sound = sound && (s->offset == 0 ? s->bytes == 0 : inside);
    }
    return sound;
}

static uint64_t some_sections(mica_file_t *f) {
    const uint64_t end = nondet_u64();
    for (uint32_t k = 1; k <= MICA_MAX_KIND; ++k) {
        f->s[k] = (mica_section_t) { nondet_u32(), nondet_u32(), (uint16_t)nondet_u32() };
    }
    __CPROVER_assume(scanned(f, end));
    return end;
}

// Record i < n of the section table, which ends inside the file (theorem `record`).
static uint32_t some_entry(const mica_file_t *f, uint32_t step) {
    const uint32_t at = nondet_u32();
    __CPROVER_assume(at <= f->file_bytes && f->file_bytes - at >= step);
    return at;
}

void prove_scan(void) {
    size_t len;
    const uint8_t *bytes = any_file(&len);
    mica_file_t f;
    mica_info_t info;
    mica_error_t err;
    if (mica_scan(bytes, len, nondet_bool(), &f, &info, &err) == MICA_OK) {
        __CPROVER_assert(f.base == bytes && f.file_bytes <= len && info.file_bytes == f.file_bytes, "the file");
        __CPROVER_assert(scanned(&f, f.file_bytes), "sections");
        __CPROVER_assert(f.s[MICA_KIND_DATA].offset && f.s[MICA_KIND_STRINGS].offset, "those that no file may miss");
        __CPROVER_assert(info.n_tensors >= 1 && info.n_tensors <= MICA_MAX_TENSORS, "tensors");
        __CPROVER_assert(info.n_steps <= MICA_MAX_STEPS, "steps");
    }
}

// Any part of a file, and more than there is.
void prove_crc(void) {
    size_t len;
    mica_model_t m;
    m.file.base = any_file(&len);
    m.file.file_bytes = (uint32_t)len;
    mica_file_crc(&m, nondet_u32(), nondet_u32(), nondet_u32());
}

// --- tensors, and a step's operands

static void any_model(mica_model_t *m) {
    any_sections(&m->file);
    __CPROVER_assume(m->info.arena_bytes <= MICA_MAX_BYTES && m->info.state_bytes <= MICA_MAX_BYTES);
    m->arena = malloc(m->info.arena_bytes);
    m->state = malloc(m->info.state_bytes);
    __CPROVER_assume(m->arena != NULL && m->state != NULL);
}

// A tensor that is read lies inside its space, and no dimension is 0.
void prove_tensor(void) {
    mica_model_t m;
    mica_tensor_t t;
    mica_error_t err;
    any_model(&m);
    const uint32_t k = nondet_u32();
    __CPROVER_assume(k < MICA_MAX_RANK);
    if (mica_read_tensor(&m, nondet_u32(), &t, &err) == MICA_OK) {
        __CPROVER_assert(t.rank <= MICA_MAX_RANK && t.dims[k] >= 1 && t.dims[k] <= MICA_MAX_DIM, "a shape");
        __CPROVER_assert(k < t.rank || t.dims[k] == 1, "a dimension behind the rank");
        const mica_section_t *data = &m.file.s[MICA_KIND_DATA];
        const uint8_t *space = t.space == MICA_SPACE_STATE ? m.state : t.space == MICA_SPACE_DATA
            ? m.file.base + data->offset : m.arena;
        const uint32_t bytes = t.space == MICA_SPACE_STATE ? m.info.state_bytes : t.space == MICA_SPACE_DATA
            ? data->bytes : m.info.arena_bytes;
        const size_t at = (size_t)((const uint8_t *)t.data - space);
        __CPROVER_assert(at <= bytes && (t.space == MICA_SPACE_ROWS || at + t.bytes <= bytes), "inside its space");
        __CPROVER_assert(at % MICA_BLOB_ALIGN == 0 && t.bytes >= 1, "aligned, some bytes");
    }
}

// The constants of n channels lie inside DATA, weights behind the table of their codes.
void prove_channels(void) {
    mica_model_t m;
    mica_error_t err = { .status = MICA_OK };
    mica_channels_t ch;
    any_sections(&m.file);
    mica_step_record_t r = { .m = &m, .record = any_step(&m.file), .err = &err };
    const uint32_t n = nondet_u32();
    const size_t bytes = nondet_size();
    ch.layout = (uint8_t)nondet_u32();
    __CPROVER_assume(n <= MICA_MAX_DIM && bytes <= UINT32_MAX && (!MICA_CODED(ch.layout) || bytes >= MICA_CODES));
    mica_load_channels(&r, &ch, bytes, n);
    if (mica_load_ok(&r)) {
        const size_t end = (size_t)m.file.s[MICA_KIND_DATA].offset + m.file.s[MICA_KIND_DATA].bytes;
        const size_t table = MICA_CODED(ch.layout) ? MICA_CODES : 0;
        __CPROVER_assert(__CPROVER_POINTER_OFFSET(ch.weights) + bytes - table <= end, "weights");
        __CPROVER_assert(table == 0 ? ch.table == NULL : ch.table + table == ch.weights, "the table");
        __CPROVER_assert(__CPROVER_POINTER_OFFSET(ch.bias) + 4 * (size_t)n <= end, "bias");
        __CPROVER_assert(__CPROVER_POINTER_OFFSET(ch.mult) + 4 * (size_t)n <= end, "mult");
        __CPROVER_assert(__CPROVER_POINTER_OFFSET(ch.shift) + n <= end, "shift");
    }
}

// What CBMC proves of load.c, with its loops cut and functions by contract, as in tables.c.
#include "tables.c"
#include "load.c"

// --- contracts

// A tensor as mica_read_tensor leaves it (read_tensor): its shape is sound, and it lies inside the arena or elsewhere.
static mica_status_t some_tensor(const mica_model_t *m, uint32_t id, mica_tensor_t *t, mica_error_t *err) {
    __CPROVER_assert(id < m->info.n_tensors, "a tensor's number");
    err->status = nondet_bool() ? MICA_OK : MICA_ERR_TENSOR;
    any_shape(t);
    __CPROVER_assume(t->bytes >= 1 && t->bytes <= MICA_MAX_BYTES);
    return err->status;
}

// A name, any (check_name).
static mica_status_t some_name(const mica_file_t *f, uint32_t offset, uint32_t byte, mica_error_t *err) {
    (void)f, (void)offset, (void)byte;
    return err->status = nondet_bool() ? MICA_OK : MICA_ERR_NAME;
}

// IO as check_io leaves it (check_io).
static mica_status_t some_io(const mica_model_t *m, uint32_t *golden, mica_error_t *err) {
    (void)m;
    *golden = nondet_u32();
    err->status = nondet_bool() ? MICA_OK : MICA_ERR_TENSOR;
    __CPROVER_assume(*golden >= 1 || err->status != MICA_OK);
    return err->status;
}

// --- proofs

// A name ends inside STRINGS, and is read no further.
void prove_name(void) {
    mica_file_t f;
    mica_error_t err;
    any_sections(&f);
    check_name(&f, nondet_u32(), nondet_u32(), &err);
}

static bool apart(range_t a, range_t b) {
    const uintptr_t x = (uintptr_t)a.start, y = (uintptr_t)b.start;
    return a.bytes == 0 || b.bytes == 0 || (x < y ? x + a.bytes <= y : y + b.bytes <= x);
}

static range_t some_range(void) {
    const uintptr_t at = nondet_size();
    const range_t r = { (const void *)at, nondet_size() };
    __CPROVER_assume(r.bytes <= UINTPTR_MAX - at);
    return r;
}

// Memory that is accepted is large enough, aligned, and shares no byte with the file.
void prove_memory(void) {
    mica_info_t info;
    mica_error_t err;
    const range_t all[] = { some_range(), some_range(), some_range(), some_range() };
    const uint32_t i = nondet_u32(), k = nondet_u32();
    __CPROVER_assume(i < 4 && k < 4 && i != k);
    __CPROVER_assume(info.arena_bytes <= MICA_MAX_BYTES && info.state_bytes <= MICA_MAX_BYTES);
    if (check_memory(&info, all[0], all[1], all[2], all[3], &err) == MICA_OK) {
        __CPROVER_assert(apart(all[i], all[k]), "no byte is shared");
        __CPROVER_assert(all[0].bytes >= info.model_bytes && all[3].bytes >= info.state_bytes, "memory and state");
        __CPROVER_assert(all[2].bytes >= info.arena_bytes, "arena");
        __CPROVER_assert(all[2].bytes - info.arena_bytes >= info.scratch_min, "scratch");
        const uintptr_t either = (uintptr_t)all[2].start | (uintptr_t)all[3].start;
        __CPROVER_assert(either % MICA_ALIGN == 0, "aligned");
    }
}

// An input and the output share no byte, or are the same where the kernel may overwrite it.
void prove_inputs(void) {
    mica_error_t err = { .status = MICA_OK };
    mica_step_record_t r = { .err = &err, .n_inputs = nondet_u32() };
    mica_model_t m;
    size_t len;
    uint8_t *arena = any_file(&len);
    const uint32_t y = nondet_u32(), i = nondet_u32();
    const bool in_place = nondet_bool();
    uint32_t x[MICA_MAX_INPUTS];
    __CPROVER_assume(len >= MICA_SIZEOF_STEP && r.n_inputs <= MICA_MAX_INPUTS && i < r.n_inputs);
    m.file.base = arena;
    r.m = &m;
    r.record = arena;
    for (uint32_t k = 0; k < MICA_MAX_INPUTS; ++k) {
        r.x[k].bytes = nondet_u32();
        r.x[k].dtype = (uint8_t)nondet_u32();
        r.x[k].space = (uint8_t)nondet_u32();
        __CPROVER_assume(r.x[k].bytes <= len && x[k] <= len - r.x[k].bytes);
        r.x[k].data = arena + x[k];
    }
    r.y.bytes = nondet_u32();
    r.y.dtype = (uint8_t)nondet_u32();
    __CPROVER_assume(r.y.bytes <= len && y <= len - r.y.bytes);
    r.y.data = arena + y;
    if (mica_load_inputs(&r, in_place) == MICA_OK) {
        const bool same = x[i] == y && r.x[i].bytes == r.y.bytes && r.x[i].dtype == r.y.dtype;
        __CPROVER_assert(x[i] + r.x[i].bytes <= y || y + r.y.bytes <= x[i] || (in_place && same), "no byte is shared");
        __CPROVER_assert(r.x[i].space != MICA_SPACE_ROWS, "no input is kept by rows");
    }
}

// A step has as many inputs as its kernel takes, each of the type that it takes.
void prove_operands(void) {
    RECORD;
    uint32_t used;
    const uint32_t least = nondet_u32(), most = nondet_u32(), i = nondet_u32(), type = nondet_u32();
    const uint32_t last = nondet_u32();
    __CPROVER_assume(least <= most && most <= MICA_MAX_INPUTS && m.info.n_tensors >= 1 && i < MICA_MAX_INPUTS);
    if (read_operands(&r, MICA_STEP_INPUTS, least, most, MICA_MAX_INPUTS, type, last, r.x, &used) == MICA_OK) {
        __CPROVER_assert(used >= least && used <= most, "how many");
        __CPROVER_assert(i >= used || r.x[i].dtype == (i + 1 == most ? last : type), "type");
    }
}

// Bytes of a vector are not 0: GOLDEN is divided by them.
void prove_io(void) {
    mica_model_t m;
    mica_error_t err;
    uint32_t golden;
    any_sections(&m.file);
    __CPROVER_assume(m.info.n_tensors >= 1 && m.file.file_bytes >= MICA_SIZEOF_HEADER);
    if (check_io(&m, &golden, &err) == MICA_OK) {
        __CPROVER_assert(golden >= 1, "bytes of a vector");
    }
}

// All tables are read inside the file.
void prove_tables(void) {
    mica_model_t m;
    mica_error_t err;
    any_sections(&m.file);
    __CPROVER_assume(scanned(&m.file, m.file.file_bytes));
    check_tables(&m, &err);
}

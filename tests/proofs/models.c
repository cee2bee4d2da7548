// What CBMC proves of whole models, and of one kernel on buffers: load.c and single.c, with functions by contract.
#include "steps.c"
#include "single.c"

// --- contracts

static uint32_t least_scratch;
static bool left_over, called;

static uint32_t run_kernel(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) {
    (void)s, (void)begin, (void)end, (void)scratch, (void)scratch_bytes;
    called = true;
    return 1;
}

// A kernel's loader: it takes the layout and the claim of FAST that it knows, asks for a constant, and may fail.
static void any_loader(mica_step_record_t *r, mica_step_t *s) {
    __CPROVER_assert(r->n_inputs <= MICA_MAX_INPUTS && r->y.space != MICA_SPACE_DATA, "operands");
    __CPROVER_assert(mica_u32(r->record + MICA_STEP_SCRATCH_MIN) >= least_scratch, "scratch");
    if (r->m->steps == NULL) {  // of one kernel; of models see load_blob
        const size_t bytes = nondet_size();
        mica_load_blob(r, up_to(MICA_MAX_BLOBS - 1), bytes, MICA_BLOB_ALIGN);
        __CPROVER_assert(!mica_load_ok(r) || bytes <= MICA_MAX_BYTES, "bytes of a constant");
    }
    r->layout = nondet_bool() ? MICA_LAYOUT_PLAIN : r->layout;
    r->fast = r->fast && nondet_bool();
    r->err->status = nondet_bool() ? r->err->status : MICA_ERR_RANGE;
    left_over = r->layout != MICA_LAYOUT_PLAIN || r->fast;
    s->run = run_kernel;
}

mica_step_loader_t mica_step_loader(uint32_t kernel) {
    mica_kernel_facts_t facts;
    return mica_kernel_facts(kernel, &facts) && nondet_bool() ? any_loader : NULL;
}

uint32_t mica_scratch_min(uint32_t kernel, uint32_t out_channels, uint32_t reduction) {
    (void)kernel, (void)out_channels, (void)reduction;
    return least_scratch = nondet_u32();
}

// What fails leaves its status.
static mica_status_t some_status(mica_error_t *err) {
    return err->status = nondet_bool() ? MICA_OK : MICA_ERR_STEP;
}

// Operands as read_operands leaves them (read_operands).
static mica_status_t some_operands(mica_step_record_t *r, uint32_t least, uint32_t most, uint32_t places,
    mica_tensor_t *t, uint32_t *used) {
    __CPROVER_assert(least <= most && most <= places, "as many as there is room for");
    *used = nondet_u32();
    __CPROVER_assume(*used >= least && *used <= most);
    for (uint32_t k = 0; k < places && t != &r->y; ++k) {
        any_shape(&t[k]);
    }
    if (t == &r->y) {
        __CPROVER_assert(most == 1, "one output");
        any_shape(t);
    }
    return r->err->status = nondet_bool() ? MICA_OK : MICA_ERR_STEP;
}

bool mica_in_strip(const mica_model_t *m, uint32_t i) {
    (void)m, (void)i;
    return nondet_bool();
}

mica_status_t mica_load_strip_step(mica_step_record_t *r, uint32_t i) {
    (void)i;
    return some_status(r->err);
}

mica_status_t mica_load_tokens(const mica_model_t *m, mica_error_t *err) {
    (void)m;
    return some_status(err);
}

mica_status_t mica_load_order(mica_model_t *m, mica_error_t *err) {
    (void)m;
    return some_status(err);
}

mica_status_t mica_replay_order(const mica_model_t *m, mica_error_t *err) {
    (void)m;
    return some_status(err);
}

// A step of the file, loaded into its place (load_step).
static mica_status_t some_step(const mica_model_t *m, uint32_t i, mica_step_t *s, mica_error_t *err) {
    __CPROVER_assert(i < m->info.n_steps && s == m->steps + i, "a step and its place");
    return some_status(err);
}

// The section table, the header's numbers (check_sections).
static mica_status_t scan_of(const void *base, size_t len, mica_file_t *file, mica_info_t *info, mica_error_t *err) {
    mica_file_t f;
    mica_info_t found;
    f.base = base;
    __CPROVER_assume(f.file_bytes <= len && scanned(&f, f.file_bytes));
    __CPROVER_assume(found.file_bytes == f.file_bytes && found.n_steps <= MICA_MAX_STEPS && found.n_tensors >= 1);
    __CPROVER_assume(found.arena_bytes <= MICA_MAX_BYTES && found.scratch_min <= MICA_MAX_BYTES);
    __CPROVER_assume(found.model_bytes >= sizeof(mica_model_t) + found.n_steps * sizeof(mica_step_t));
    *file = f;
    *info = found;
    return some_status(err);
}

// Memory that is large enough (check_memory).
static mica_status_t some_memory(const mica_info_t *info, range_t mem, range_t arena, range_t state,
    mica_error_t *err) {
    const mica_status_t status = some_status(err);
    if (status == MICA_OK) {
        __CPROVER_assume(mem.start != NULL && mem.bytes >= info->model_bytes && state.bytes >= info->state_bytes);
        __CPROVER_assume(arena.bytes >= info->arena_bytes && arena.bytes - info->arena_bytes >= info->scratch_min);
        __CPROVER_assume(arena.bytes == 0 || arena.start != NULL);
    }
    return status;
}

static mica_status_t some_load(const mica_model_t *m, mica_error_t *err) {
    __CPROVER_assert(__CPROVER_w_ok(m->steps, m->info.n_steps * sizeof(mica_step_t)), "room for the steps");
    return some_status(err);
}

void mica_reset_state(const mica_model_t *m) {
    __CPROVER_assert(__CPROVER_w_ok(m->state, m->info.state_bytes), "the state");
}

// --- proofs

// A step that is loaded has a function and scratch enough; its output is no constant; nothing that it claims is left.
void prove_step(void) {
    mica_model_t m;
    mica_error_t err = { .status = MICA_OK };
    mica_step_t s;
    const bool missing = nondet_bool();
    any_sections(&m.file);
    __CPROVER_assume(m.steps != NULL);
    if (load_step(&m, nondet_u32(), missing, NULL, &s, &err) == MICA_OK) {
        m.steps = &s;
        __CPROVER_assert(err.status == MICA_OK && s.run != NULL && !left_over, "a step");
        __CPROVER_assert(mica_step_has_kernel(&m, 0) || missing, "a kernel");
    }
}

// A step whose constants have moved takes the place of the one before.
void prove_move(void) {
    mica_model_t m;
    mica_error_t err;
    const void *blobs[MICA_MAX_BLOBS];
    const uint32_t i = nondet_u32();
    __CPROVER_assume(m.info.n_steps <= MICA_MAX_STEPS && i < m.info.n_steps);
    m.steps = malloc(m.info.n_steps * sizeof(mica_step_t));
    __CPROVER_assume(m.steps != NULL);
    mica_move_constants(&m, i, blobs, &err);
}

// Every step is loaded into its own place.
void prove_load(void) {
    mica_model_t m;
    mica_error_t err = { .status = MICA_OK };
    any_sections(&m.file);
    __CPROVER_assume(m.info.n_steps <= MICA_MAX_STEPS && m.info.n_tensors >= 1);
    m.steps = malloc(m.info.n_steps * sizeof(mica_step_t));
    __CPROVER_assume(m.steps != NULL);
    if (load(&m, nondet_bool(), &err) == MICA_OK) {
        __CPROVER_assert(err.status == MICA_OK, "no error is left");
    }
}

// A model is written into its memory alone, and its scratch lies behind the arena's bytes.
void prove_whole(void) {
    size_t len, mem_bytes = nondet_size(), arena_bytes = nondet_size(), state_bytes = nondet_size();
    const uint8_t *file = any_file(&len);
    __CPROVER_assume(mem_bytes <= MICA_MAX_BYTES && arena_bytes <= UINT32_MAX && state_bytes <= MICA_MAX_BYTES);
    uint8_t *mem = malloc(mem_bytes), *arena = malloc(arena_bytes), *state = malloc(state_bytes);
    mica_model_t *m = NULL;
    mica_error_t err;
    const uint32_t options = nondet_u32();
    const mica_status_t status = options == 0
        ? mica_load(mem, mem_bytes, file, len, arena, arena_bytes, state, state_bytes, &m, &err)
        : mica_load_with(options, mem, mem_bytes, file, len, arena, arena_bytes, state, state_bytes, &m, &err);
    if (status == MICA_OK) {
        __CPROVER_assert((uint8_t *)m == mem && m->steps == (mica_step_t *)(m + 1), "the model");
        __CPROVER_assert(arena == NULL || (uint8_t *)m->scratch + m->scratch_bytes == arena + arena_bytes, "scratch");
        __CPROVER_assert(m->scratch_bytes >= m->info.scratch_min, "bytes of scratch");
    }
}

// One of the buffers of a caller, which may share bytes with others.
static void some_buffer(const uint8_t *all, size_t len, const void **data, uint32_t *bytes) {
    const uint32_t at = nondet_u32();
    *bytes = nondet_u32();
    __CPROVER_assume(at <= len && *bytes <= len - at);
    *data = all + at;
}

// A kernel runs on buffers as long as their shapes say, apart from its constants.
void prove_single(void) {
    size_t len;
    const uint8_t *all = any_file(&len);
    mica_single_t c;
    mica_error_t err;
    const uint32_t i = nondet_u32();
    any_shape(&c.y);
    some_buffer(all, len, (const void **)&c.y.data, &c.y.bytes);
    for (uint32_t k = 0; k < MICA_MAX_INPUTS; ++k) {
        any_shape(&c.x[k]);
        some_buffer(all, len, (const void **)&c.x[k].data, &c.x[k].bytes);
    }
    for (uint32_t k = 0; k < MICA_MAX_BLOBS; ++k) {
        some_buffer(all, len, &c.blobs[k], &c.blob_bytes[k]);
    }
    __CPROVER_assume(i < MICA_MAX_BLOBS && c.y.space != MICA_SPACE_DATA);
    called = false;
    const mica_status_t status = mica_run_single(&c, &err);
    __CPROVER_assert(called == (status == MICA_OK), "the kernel ran where all was well");
    if (called) {
        const uint8_t *blob = c.blobs[i], *y = c.y.data;
        __CPROVER_assert(blob + c.blob_bytes[i] <= y || y + c.y.bytes <= blob, "no byte of a constant is written");
    }
}

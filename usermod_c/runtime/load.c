// mica: from records to resolved steps. Everything that forms an address is read once, validated, and kept in memory.
#include <string.h>

#include "model.h"

// ---- names

// A control character but the line feed: U+0001 to U+001F, U+007F to U+009F in UTF-8.
static bool is_control(const uint8_t *s) {
    return (s[0] < 0x20 && s[0] != 0 && s[0] != '\n') || s[0] == 0x7f || (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0);
}

// White space of Unicode other than the blank. What s points to ends in a zero, so nothing behind it is read.
static bool is_space(const uint8_t *s) {
    switch (s[0]) {
        case '\n':
            return true;
        case 0xc2:
            return s[1] == 0xa0;
        case 0xe1:
            return s[1] == 0x9a && s[2] == 0x80;
        case 0xe2:
            return (s[1] == 0x80 && ((s[2] >= 0x80 && s[2] <= 0x8a) || s[2] == 0xa8 || s[2] == 0xa9 || s[2] == 0xaf))
                   || (s[1] == 0x81 && s[2] == 0x9f);
        case 0xe3:
            return s[1] == 0x80 && s[2] == 0x80;
        default:
            return false;
    }
}

// The rule of SPEC.md: one line of text that can be shown. STRINGS has no control characters, see check_tables.
static mica_status_t check_name(const mica_file_t *f, uint32_t offset, uint32_t byte, mica_error_t *err) {
    const uint8_t *s = (const uint8_t *)mica_string(f, offset);
    if (s == NULL) {
        return mica_fail(err, MICA_ERR_BOUNDS, "name passes the end of STRINGS", byte, offset,
            f->s[MICA_KIND_STRINGS].bytes);
    }
    uint32_t n = 0;
    for (bool blank = true; s[n] && n <= MICA_MAX_NAME; ++n) {
        bool bad = is_space(s + n) || (s[n] == ' ' && (blank || s[n + 1] == 0));
        if (bad) {
            return mica_fail(err, MICA_ERR_NAME, "a name has white space other than single blanks", byte, 0, 0);
        }
        blank = s[n] == ' ';
    }
    if (n > MICA_MAX_NAME) {
        return mica_fail(err, MICA_ERR_NAME, "a name is too long, bytes", byte, n, MICA_MAX_NAME);
    }
    return MICA_OK;
}

// ---- one step

bool mica_kernel_facts(uint32_t kernel, mica_kernel_facts_t *facts) {
    switch (kernel) {
        #define FACTS(name, NAME, least, most, in_place, X, LAST, Y) \
    case MICA_KERNEL_##NAME: \
        *facts = (mica_kernel_facts_t) { least, most, in_place, MICA_DTYPE_##X, MICA_DTYPE_##LAST, MICA_DTYPE_##Y }; \
        return true;
        MICA_KERNELS(FACTS)
        #undef FACTS
        default:
            return false;
    }
}

// Reads the tensors of a step: `least` to `most` of them at `field`, then unused ones up to `places`. *used: how many.
static mica_status_t read_operands(mica_step_record_t *r, uint32_t field, uint32_t least, uint32_t most,
    uint32_t places, uint32_t dtype, uint32_t last_dtype, mica_tensor_t *t, uint32_t *used) {
    *used = most;
    for (uint32_t i = 0; i < places; ++i, field += 2) {
        uint32_t id = mica_u16(r->record + field);
        if (i >= least && i < *used && id == MICA_NO_TENSOR) {
            *used = i;
        }
        if (i >= *used) {
            if (id != MICA_NO_TENSOR) {
                return mica_record_fail(r, MICA_ERR_STEP, "too many tensors", field, id, MICA_NO_TENSOR);
            }
            continue;
        }
        if (id >= r->m->info.n_tensors) {
            return mica_record_fail(r, MICA_ERR_STEP, "tensor id", field, id, r->m->info.n_tensors - 1);
        }
        mica_status_t status = mica_read_tensor(r->m, id, &t[i], r->err);
        if (status != MICA_OK) {
            return status;
        }
        uint32_t expected = i + 1 == most ? last_dtype : dtype;
        if (t[i].dtype != expected) {
            r->err->tensor = (int32_t)id;
            return mica_record_fail(r, MICA_ERR_STEP, "element type of a tensor", field, t[i].dtype, expected);
        }
    }
    return MICA_OK;
}

// Stands in for a kernel that this build lacks, where the caller said that it runs such steps itself.
static uint32_t run_nothing(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) {
    (void)s, (void)begin, (void)end, (void)scratch, (void)scratch_bytes;
    return 0;
}

bool mica_step_has_kernel(const mica_model_t *m, uint32_t i) {
    return m->steps[i].run != run_nothing;
}

static const char by_rows[] = "a tensor that is kept by rows, outside of a strip";

mica_status_t mica_load_inputs(mica_step_record_t *r, bool in_place) {
    const uint8_t *y = r->y.data;
    for (uint32_t k = 0; k < r->n_inputs; ++k) {
        const uint8_t *x = r->x[k].data;
        if (r->x[k].space == MICA_SPACE_ROWS) {
            return mica_record_fail(r, MICA_ERR_STEP, by_rows, MICA_STEP_INPUTS, 0, 0);
        }
        bool exactly = x == y && r->x[k].bytes == r->y.bytes && r->x[k].dtype == r->y.dtype;
        if (x < y + r->y.bytes && y < x + r->x[k].bytes && !(in_place && exactly)) {
            return mica_record_fail(r, MICA_ERR_OVERLAP, "input and output share bytes", MICA_STEP_INPUTS, 0, 0);
        }
    }
    return MICA_OK;
}

// blobs: where its constants lie; null: in the file.
static mica_status_t load_step(const mica_model_t *m, uint32_t i, bool missing_kernels, const void *const *blobs,
    mica_step_t *s, mica_error_t *err) {
    const uint8_t *record = mica_record(&m->file, MICA_KIND_STEPS, i);
    mica_step_record_t rec = { .m = m, .record = record, .err = err, .blobs = blobs }, *r = &rec;
    err->step = (int32_t)i;
    if (check_name(&m->file, mica_u32(record + MICA_STEP_NAME), mica_at(&m->file, record) + MICA_STEP_NAME, err)
        != MICA_OK) {
        return err->status;
    }
    uint32_t kernel = mica_u16(record + MICA_STEP_KERNEL);
    mica_step_loader_t loader = mica_step_loader(kernel);
    mica_kernel_facts_t facts;
    if (!mica_kernel_facts(kernel, &facts) || (loader == NULL && !missing_kernels)) {
        return mica_record_fail(r, MICA_ERR_KERNEL, "kernel", MICA_STEP_KERNEL, kernel, 0);
    }
    uint32_t outputs;
    if (read_operands(r, MICA_STEP_INPUTS, facts.least, facts.most, MICA_MAX_INPUTS, facts.x_type, facts.last_type,
        r->x, &r->n_inputs)
            != MICA_OK
        || read_operands(r, MICA_STEP_OUTPUTS, 1, 1, MICA_MAX_OUTPUTS, facts.y_type, facts.y_type, &r->y, &outputs)
        != MICA_OK) {
        return err->status;
    }
    if (r->y.space == MICA_SPACE_DATA) {
        return mica_record_fail(r, MICA_ERR_STEP, "the output is a constant", MICA_STEP_OUTPUTS, 0, 0);
    }
    const bool strip = mica_in_strip(m, i);  // whose calls say which rows are where: mica_replay_order() looks at these
    if (strip ? mica_load_strip_step(r, i) != MICA_OK : r->y.space == MICA_SPACE_ROWS) {
        return strip ? err->status : mica_record_fail(r, MICA_ERR_STEP, by_rows, MICA_STEP_OUTPUTS, 0, 0);
    }
    if (!strip && mica_load_inputs(r, facts.in_place) != MICA_OK) {
        return err->status;
    }
    uint32_t scratch = mica_u32(record + MICA_STEP_SCRATCH_MIN), want = mica_u32(record + MICA_STEP_SCRATCH_WANT);
    uint32_t least = mica_scratch_min(kernel, r->y.rank ? r->y.dims[r->y.rank - 1] : 1, 0);
    if (scratch < least || want < scratch) {
        return mica_record_fail(r, MICA_ERR_STEP, "scratch", MICA_STEP_SCRATCH_MIN, scratch, least);
    }
    r->fast = (record[MICA_STEP_FLAGS] & MICA_STEP_FLAG_FAST) != 0;
    r->layout = record[MICA_STEP_LAYOUT];
    *s = (mica_step_t) { .run = run_nothing };
    if (loader == NULL) {
        return MICA_OK;  // parameters and constants are its caller's to validate
    }
    loader(r, s);
    if (r->layout != MICA_LAYOUT_PLAIN) {  // first: with another layout the loader looked for other bytes
        return mica_record_fail(r, MICA_ERR_STEP, "weight layout", MICA_STEP_LAYOUT, record[MICA_STEP_LAYOUT], 0);
    }
    if (err->status == MICA_OK && r->fast) {
        return mica_record_fail(r, MICA_ERR_RANGE, "claims FAST, which this kernel does not have", MICA_STEP_FLAGS, 1,
            0);
    }
    return err->status;
}

mica_status_t mica_move_constants(mica_model_t *m, uint32_t i, const void *const *blobs, mica_error_t *err) {
    mica_step_t step;
    *err = (mica_error_t) { .step = -1, .tensor = -1 };
    if (load_step(m, i, true, blobs, &step, err) == MICA_OK) {
        m->steps[i] = step;
    }
    return err->status;
}

// ---- the whole model

typedef struct {
    const void *start;
    size_t bytes;
} range_t;

static bool overlap(range_t a, range_t b) {
    uintptr_t x = (uintptr_t)a.start, y = (uintptr_t)b.start;
    return a.bytes && b.bytes && (x < y ? y - x < a.bytes : x - y < b.bytes);
}

static mica_status_t check_memory(const mica_info_t *info, range_t mem, range_t file, range_t arena, range_t state,
    mica_error_t *err) {
    if (mem.start == NULL || mem.bytes < info->model_bytes || (uintptr_t)mem.start % sizeof(void *)) {
        return mica_fail(err, MICA_ERR_ARGUMENT, "memory for the model", 0, (uint32_t)mem.bytes,
            (uint32_t)info->model_bytes);
    }
    if ((uint64_t)info->arena_bytes + info->scratch_min > arena.bytes) {
        return mica_fail(err, MICA_ERR_ARENA, "the arena is too small", MICA_HEADER_ARENA_BYTES, (uint32_t)arena.bytes,
            info->arena_bytes + info->scratch_min);
    }
    if (info->state_bytes > state.bytes) {
        return mica_fail(err, MICA_ERR_ARENA, "the state memory is too small", MICA_HEADER_STATE_BYTES,
            (uint32_t)state.bytes, info->state_bytes);
    }
    if ((arena.bytes && arena.start == NULL) || (uintptr_t)arena.start % MICA_ALIGN
        || (state.bytes && state.start == NULL) || (uintptr_t)state.start % MICA_ALIGN) {
        return mica_fail(err, MICA_ERR_ALIGN, "arena or state memory does not begin on a multiple of 16", 0, 0, 0);
    }
    range_t all[] = { mem, file, arena, state };
    for (uint32_t i = 0; i < 4; ++i) {
        for (uint32_t k = i + 1; k < 4; ++k) {
            if (overlap(all[i], all[k])) {
                return mica_fail(err, MICA_ERR_OVERLAP, "file, arena, state and the model's memory share bytes", 0, 0,
                    0);
            }
        }
    }
    return MICA_OK;
}

// Whether one of the first n records of IO is r.
static bool is_listed(const mica_file_t *f, uint32_t n, const uint8_t *r) {
    uint32_t k = 0;
    while (k < n && mica_u32(mica_record(f, MICA_KIND_IO, k)) != mica_u32(r)) {
        ++k;
    }
    return k < n;
}

// IO. *golden: bytes of one vector; held at MICA_MAX_BYTES, which no section reaches.
static mica_status_t check_io(const mica_model_t *m, uint32_t *golden, mica_error_t *err) {
    const mica_file_t *f = &m->file;
    uint32_t n_io = mica_count(f, MICA_KIND_IO);
    const bool feeds = (mica_u32(f->base + MICA_HEADER_FEATURES) & MICA_FEATURE_FED) != 0;
    uint32_t fed = 0, sum = 0;  // inputs that are; the bytes of those before
    for (uint32_t i = 0; i < n_io; ++i) {
        const uint8_t *r = mica_record(f, MICA_KIND_IO, i);
        uint32_t id = mica_u16(r + MICA_IO_TENSOR), role = mica_u16(r + MICA_IO_ROLE);
        mica_tensor_t t;
        if (role > 1) {
            return mica_fail(err, MICA_ERR_BOUNDS, "role of a model input or output", mica_at(f, r), role, 1);
        }
        if (id >= m->info.n_tensors) {
            return mica_fail(err, MICA_ERR_TENSOR, "tensor of a model input or output", mica_at(f, r), id,
                m->info.n_tensors - 1);
        }
        err->tensor = (int32_t)id;
        if (mica_read_tensor(m, id, &t, err) != MICA_OK) {
            return err->status;
        }
        fed += t.space == MICA_SPACE_ROWS;
        const char *wrong = NULL;
        uint32_t found = t.space;
        if (t.space == MICA_SPACE_ROWS && (role != 0 || !feeds || fed != 1)) {
            wrong = "a model input or output is kept by rows";
        } else if (t.space == MICA_SPACE_DATA) {
            wrong = "a model input or output is a constant";
        } else if (is_listed(f, i, r)) {
            wrong = "a model input or output is listed twice";
            found = id;
        }
        if (wrong != NULL) {
            return mica_fail(err, MICA_ERR_TENSOR, wrong, mica_at(f, r), found, 0);
        }
        sum += (t.bytes + 3) & ~(uint32_t)3;  // at most 2^31 - 1 and 2^31: the sum fits
        sum = sum < MICA_MAX_BYTES ? sum : MICA_MAX_BYTES;
    }
    err->tensor = -1;
    if (feeds && fed == 0) {
        return mica_fail(err, MICA_ERR_FEATURE, "the feature FED, and no input is fed", MICA_HEADER_FEATURES, 0, 1);
    }
    if (m->info.n_inputs == 0 || m->info.n_outputs == 0) {
        return mica_fail(err, MICA_ERR_BOUNDS, "the model has no input or no output", f->s[MICA_KIND_IO].offset, 0, 1);
    }
    *golden = sum;
    return MICA_OK;
}

// STRINGS, TENSORS, IO, METADATA, GOLDEN and LAYER_CRCS.
static mica_status_t check_tables(const mica_model_t *m, mica_error_t *err) {
    const mica_file_t *f = &m->file;
    const mica_section_t *strings = &f->s[MICA_KIND_STRINGS];
    if (mica_string(f, 0) == NULL) {
        return mica_fail(err, MICA_ERR_BOUNDS, "STRINGS does not end in a zero", strings->offset, 0, 0);
    }
    for (uint32_t i = 0; i < strings->bytes; ++i) {
        if (is_control(f->base + strings->offset + i)) {
            return mica_fail(err, MICA_ERR_NAME, "STRINGS has control characters", strings->offset + i, 0, 0);
        }
    }
    for (uint32_t i = 0; i < m->info.n_tensors; ++i) {
        mica_tensor_t t;
        if (mica_read_tensor(m, i, &t, err) != MICA_OK) {
            return err->status;
        }
        const uint8_t *r = mica_record(f, MICA_KIND_TENSORS, i);
        err->tensor = (int32_t)i;
        if (check_name(f, mica_u32(r + MICA_TENSOR_NAME), mica_at(f, r), err) != MICA_OK) {
            return err->status;
        }
        err->tensor = -1;
    }
    uint32_t golden = 0;
    const mica_status_t io = check_io(m, &golden, err);
    if (io != MICA_OK) {
        return io;
    }
    for (uint32_t i = 0; i < mica_count(f, MICA_KIND_METADATA); ++i) {
        const uint8_t *r = mica_record(f, MICA_KIND_METADATA, i);
        if (check_name(f, mica_u32(r + MICA_METADATA_KEY), mica_at(f, r), err) != MICA_OK) {
            return err->status;
        }
        if (!mica_string(f, mica_u32(r + MICA_METADATA_VALUE))) {
            return mica_fail(err, MICA_ERR_BOUNDS, "metadata passes the end of STRINGS", mica_at(f, r), 0,
                strings->bytes);
        }
    }
    if (f->s[MICA_KIND_GOLDEN].bytes % golden) {
        return mica_fail(err, MICA_ERR_BOUNDS, "GOLDEN is no multiple of a vector", f->s[MICA_KIND_GOLDEN].offset,
            f->s[MICA_KIND_GOLDEN].bytes, golden);
    }
    uint64_t crcs = (uint64_t)(f->s[MICA_KIND_GOLDEN].bytes / golden) * m->info.n_steps * 4;
    if (f->s[MICA_KIND_LAYER_CRCS].offset && f->s[MICA_KIND_LAYER_CRCS].bytes != crcs) {
        return mica_fail(err, MICA_ERR_BOUNDS, "LAYER_CRCS is not one checksum a step and vector",
            f->s[MICA_KIND_LAYER_CRCS].offset, f->s[MICA_KIND_LAYER_CRCS].bytes, (uint32_t)crcs);
    }
    return MICA_OK;
}

static mica_status_t load(mica_model_t *m, bool missing_kernels, mica_error_t *err) {
    if (check_tables(m, err) != MICA_OK || mica_load_tokens(m, err) != MICA_OK || mica_load_order(m, err) != MICA_OK) {
        return err->status;
    }
    uint32_t kernels[4] = { 0 }, scratch_min = 0, scratch_want = 0;
    for (uint32_t i = 0; i < m->info.n_steps; ++i) {
        if (load_step(m, i, missing_kernels, NULL, &m->steps[i], err) != MICA_OK) {
            return err->status;
        }
        const uint8_t *r = mica_record(&m->file, MICA_KIND_STEPS, i);
        uint32_t kernel = mica_u16(r + MICA_STEP_KERNEL);
        uint32_t min = mica_u32(r + MICA_STEP_SCRATCH_MIN), want = mica_u32(r + MICA_STEP_SCRATCH_WANT);
        kernels[kernel / 32 & 3] |= 1u << kernel % 32;
        scratch_min = min > scratch_min ? min : scratch_min;
        scratch_want = want > scratch_want ? want : scratch_want;
    }
    err->step = -1;
    if (mica_replay_order(m, err) != MICA_OK) {
        return err->status;
    }
    for (uint32_t i = 0; i < 4; ++i) {
        if (kernels[i] != m->info.kernels[i]) {
            return mica_fail(err, MICA_ERR_BOUNDS, "kernels in the header are not those of the steps",
                MICA_HEADER_KERNELS + 4 * i, m->info.kernels[i], kernels[i]);
        }
    }
    if (scratch_min != m->info.scratch_min || scratch_want != m->info.scratch_want) {
        return mica_fail(err, MICA_ERR_BOUNDS, "scratch in the header is not the largest of the steps",
            MICA_HEADER_SCRATCH_MIN, m->info.scratch_min, scratch_min);
    }
    return MICA_OK;
}

mica_status_t mica_load_with(uint32_t options, void *mem, size_t mem_bytes, const void *base, size_t len, void *arena,
    size_t arena_bytes, void *state, size_t state_bytes, mica_model_t **model, mica_error_t *err) {
    mica_error_t ignored;
    err = err ? err : &ignored;
    *err = (mica_error_t) { .step = -1, .tensor = -1 };
    mica_file_t file;
    mica_info_t info;
    if (mica_scan(base, len, !(options & MICA_LOAD_CHECKED), &file, &info, err) != MICA_OK) {
        return err->status;
    }
    range_t mem_range = { mem, mem_bytes }, file_range = { base, info.file_bytes };
    range_t arena_range = { arena, arena_bytes }, state_range = { state, state_bytes };
    if (check_memory(&info, mem_range, file_range, arena_range, state_range, err) != MICA_OK) {
        return err->status;
    }
    mica_model_t *m = mem;
    *m = (mica_model_t) {
        .file = file,
        .info = info,
        .arena = arena,
        .state = state,
        .scratch = arena == NULL ? NULL : (uint8_t *)arena + info.arena_bytes,
        .scratch_bytes = arena_bytes - info.arena_bytes,
        .steps = (mica_step_t *)(m + 1),
    };
    if (load(m, (options & MICA_LOAD_MISSING_KERNELS) != 0, err) == MICA_OK) {
        mica_reset_state(m);
        *model = m;
    }
    return err->status;
}

mica_status_t mica_load(void *mem, size_t mem_bytes, const void *base, size_t len, void *arena, size_t arena_bytes,
    void *state, size_t state_bytes, mica_model_t **model, mica_error_t *err) {
    return mica_load_with(0, mem, mem_bytes, base, len, arena, arena_bytes, state, state_bytes, model, err);
}

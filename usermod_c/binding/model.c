// _mica.load() and _mica.Model: a loaded file, its steps as callables, its tensors as views of the arena.

#include <string.h>

#include "py/objarray.h"
#include "py/objstr.h"
#include "py/objtuple.h"

#include "mp_mica.h"

// Every block is held by its head: `engine` points into `tables`, the tensors into arena, state and file.
typedef struct {
    mp_obj_base_t base;
    mica_model_t *engine; // null after deinit()
    void *tables;         // where the engine built the model
    mp_obj_t file;        // whose bytes are used in place; None where they were copied
    void *file_head;      // heap block that holds the bytes, null where they are not on the heap
    const uint8_t *file_data;
    size_t file_bytes;
    void *state;
    mp_mica_arena_t *arena;
    uint8_t *arena_data; // where the arena was at load: the engine's addresses hold only there
    size_t arena_bytes;
    mp_obj_t steps;
    mp_obj_t source;      // of the fed input: a buffer or a function; null where none has been given
    mp_obj_t *instead;    // for each step what replace() put in its place; null where nothing is, nor any kernel lacks
    uint32_t id; // of this load; marks the arena
    uint32_t check_at, check_crc; // how far check() has come, and the checksum up to there
    bool copied;
    bool finished; // the last step of a run has run
} model_t;

typedef struct {
    mp_obj_base_t base;
    model_t *model;
    uint16_t index; // of a strip its first
    bool last; // with it done, the outputs are there
    bool strip;
} step_t; // 16 bytes, one block of the heap on 32-bit boards

// ---- Door ----

static model_t *model_of(mp_obj_t self_in) {
    model_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->engine == NULL) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the model was closed by deinit()"));
    }
    return self;
}

// A caller's buffer may have been extended, and its old memory freed, since the engine resolved its addresses.
static void check_arena(const model_t *self, mp_mica_span_t *span) {
    mp_mica_arena_span(self->arena, span);
    if (span->data != self->arena_data || span->bytes < self->arena_bytes) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the arena's buffer moved or shrank: load the model again"));
    }
}

static model_t *model_in_place(mp_obj_t self_in) {
    model_t *self = model_of(self_in);
    mp_mica_span_t span;
    check_arena(self, &span);
    return self;
}

// The same, to write a tensor: not into an arena in which another model is running.
static model_t *model_to_write(mp_obj_t self_in) {
    model_t *self = model_of(self_in);
    mp_mica_span_t span;
    check_arena(self, &span);
    const mp_mica_control_t *c = span.control;
    if (c != NULL && mp_mica_arena_owner(&span) != 0 && c->busy != 0 && c->busy != self->id) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("arena is busy: a run in it has not ended; its model's stop() gives it up"));
    }
    return self;
}

static uint32_t index_of(mp_obj_t index, uint32_t n, const char *what) {
    mp_int_t i = mp_mica_get_int(index);
    if (i < 0 || (mp_uint_t)i >= n) {
        mp_raise_msg_varg(&mp_type_IndexError, MP_ERROR_TEXT("%s %d: there are %u"), what, (int)i, (unsigned)n);
    }
    return (uint32_t)i;
}

static void tensor_of(const model_t *self, uint32_t id, mica_tensor_t *t) {
    if (!mica_tensor(self->engine, id, t)) {
        mp_raise_msg_varg(&mp_type_IndexError, MP_ERROR_TEXT("tensor %u: there are %u"), (unsigned)id,
            (unsigned)mica_model_info(self->engine)->n_tensors);
    }
}

static mp_obj_t name_of(const model_t *self, const char *name) {
    size_t offset = (size_t)((const uint8_t *)name - self->file_data);
    return name == NULL ? mp_const_none : mp_mica_new_str(name, self->file_bytes - offset);
}

// ---- Views ----

static size_t element_size(char typecode) {
    return typecode == 'b' || typecode == 'B' ? 1 : typecode == 'h' || typecode == 'H' ? 2 : 4;
}

// A view of `bytes` bytes at p that keeps the block beginning at `head` alive, by pointing at the head and counting
// elements from there. Off the heap nothing needs keeping, and the head may be null.
static mp_obj_t new_view(void *head, void *p, size_t bytes, char typecode, bool writable) {
    size_t size = element_size(typecode);
    size_t offset = 0;
    if (head != NULL && mp_mica_on_heap(head)) {
        offset = (size_t)((uint8_t *)p - (uint8_t *)head) / size; // both are multiples of 4
        if (offset >> MP_OBJ_ARRAY_FREE_SIZE_BITS) {
            mp_raise_msg(&mp_type_OverflowError, MP_ERROR_TEXT("tensor too far into its buffer for a memoryview"));
        }
        p = head;
    }
    mp_obj_array_t *view = m_new_obj(mp_obj_array_t);
    mp_obj_memoryview_init(view, (size_t)(uint8_t)typecode | (writable ? MP_OBJ_ARRAY_TYPECODE_FLAG_RW : 0), offset,
        bytes / size, p);
    return MP_OBJ_FROM_PTR(view);
}

static mp_obj_t tensor_view(const model_t *self, const mica_tensor_t *t, const mp_mica_span_t *arena, bool writable) {
    const bool in_arena = t->space == MICA_SPACE_ARENA || t->space == MICA_SPACE_ROWS;
    void *head = in_arena ? arena->head : t->space == MICA_SPACE_STATE ? self->state : self->file_head;
    return new_view(head, t->data, t->bytes, mp_mica_typecode(t->dtype),
        writable && t->space != MICA_SPACE_DATA);
}

// ---- Loading ----

// The start of the heap block that holds an object's bytes, null if we cannot tell: only these three are known to keep it.
static void *head_of(mp_obj_t obj) {
    void *head = NULL;
    if (mp_obj_is_type(obj, &mp_type_bytes)) {
        head = (void *)((mp_obj_str_t *)MP_OBJ_TO_PTR(obj))->data;
    } else if (mp_obj_is_type(obj, &mp_type_memoryview)) {
        head = ((mp_obj_array_t *)MP_OBJ_TO_PTR(obj))->items;
    } else if (mp_obj_is_type(obj, &mp_mica_arena_type)) {
        head = ((mp_mica_arena_t *)MP_OBJ_TO_PTR(obj))->memory;
    }
    return mp_mica_block_of(obj, head);
}

// Whether the bytes can be used where they are, for as long as `obj` lives. Writable buffers can move under their views,
// except an Arena, which never moves.
static bool stays_in_place(mp_obj_t obj, const mp_buffer_info_t *buf) {
    mp_buffer_info_t ignored;
    if ((uintptr_t)buf->buf % MICA_ALIGN != 0) {
        return false;
    }
    if (!mp_obj_is_type(obj, &mp_mica_arena_type) && mp_get_buffer(obj, &ignored, MP_BUFFER_RW)) {
        return false;
    }
    return !mp_mica_on_heap(buf->buf) || head_of(obj) != NULL;
}

static void take_file(model_t *self, mp_obj_t obj) {
    if (mp_obj_is_str(obj)) {
        mp_raise_TypeError(MP_ERROR_TEXT("the bytes of a model are expected; mica.Model(path) opens files"));
    }
    mp_buffer_info_t buf;
    mp_get_buffer_raise(obj, &buf, MP_BUFFER_READ);
    self->file = obj;
    self->file_head = head_of(obj);
    self->file_data = buf.buf;
    self->file_bytes = buf.len;
    self->copied = !stays_in_place(obj, &buf);
    if (!self->copied) {
        return;
    }
    size_t bytes = buf.len;
    uint32_t expected;
    if (bytes >= MICA_SIZEOF_HEADER) { // bytes beyond the file need no copy
        memcpy(&expected, (const uint8_t *)buf.buf + MICA_HEADER_FILE_BYTES, sizeof(expected));
        bytes = MIN(bytes, expected);
    }
    // Aligned, because every block of the heap is (arena.c asserts it). One more byte: a block of none is a null pointer.
    uint8_t *copy = m_malloc_maybe(bytes + 1);
    if (copy == NULL) {
        mp_raise_msg_varg(&mp_type_MemoryError, MP_ERROR_TEXT("no free block of %u bytes to copy the model into; "
            "from bytes or ROMFS, 16-byte aligned, it needs no copy"), (unsigned)bytes);
    }
    mp_get_buffer_raise(obj, &buf, MP_BUFFER_READ); // the allocation may have let another thread move it
    memcpy(copy, buf.buf, MIN(bytes, buf.len));
    self->file = mp_const_none;
    self->file_head = copy;
    self->file_data = copy;
    self->file_bytes = bytes;
}

static void take_arena(model_t *self, mp_obj_t obj, const mica_info_t *info) {
    if (obj != mp_const_none) {
        self->arena = mp_mica_arena_from_obj(obj);
        return;
    }
    uint64_t least = (uint64_t)info->arena_bytes + info->scratch_min;
    uint64_t most = (uint64_t)info->arena_bytes + info->scratch_want;
    // Without the scratch it wants a model still runs, several times slower: rather take a block of the heap for it.
    if (most <= MICA_ARENA_BYTES && mp_mica_arena_static_ready()) {
        self->arena = &mp_mica_arena_static;
        return;
    }
    self->arena = most <= SIZE_MAX / 2 ? mp_mica_arena_new((size_t)most) : NULL;
    if (self->arena == NULL && least <= MICA_ARENA_BYTES && mp_mica_arena_static_ready()) {
        self->arena = &mp_mica_arena_static;
    }
    if (self->arena == NULL && least <= SIZE_MAX / 2) {
        self->arena = mp_mica_arena_new((size_t)least);
    }
    if (self->arena == NULL) {
        mp_raise_msg_varg(&mp_type_MemoryError,
            MP_ERROR_TEXT("its tensors and scratch take %u bytes, more than the static arena's %u"),
            (unsigned)least, (unsigned)MICA_ARENA_BYTES);
    }
}

static mp_obj_t new_steps(model_t *self, uint32_t n) {
    mp_obj_tuple_t *steps = MP_OBJ_TO_PTR(mp_obj_new_tuple(n, NULL));
    for (uint32_t i = 0; i < n; i++) {
        step_t *step = mp_obj_malloc(step_t, &mp_mica_step_type);
        step->model = self;
        step->index = (uint16_t)i;
        step->last = i + 1 == n;
        steps->items[i] = MP_OBJ_FROM_PTR(step);
    }
    return MP_OBJ_FROM_PTR(steps);
}

// A strip is one step: the tuple, made before the engine knew of strips, gets shorter. Allocates nothing.
static void join_strips(model_t *self) {
    mp_obj_tuple_t *steps = MP_OBJ_TO_PTR(self->steps);
    const uint32_t n = mica_model_info(self->engine)->n_steps;
    size_t used = 0;
    for (uint32_t i = 0; i < n; ++used) {
        step_t *step = MP_OBJ_TO_PTR(steps->items[used]);
        step->index = (uint16_t)i;
        step->strip = mica_is_strip(self->engine, i);
        i += mica_strip_steps(self->engine, i);
        step->last = i == n;
    }
    for (size_t i = used; i < steps->len; ++i) {
        steps->items[i] = MP_OBJ_NULL;
    }
    steps->len = used;
}

// ---- The fed input ----

// Of all its rows, also where only some are kept.
static uint32_t whole_bytes(const mica_tensor_t *t) {
    uint32_t bytes = (uint32_t)element_size(mp_mica_typecode(t->dtype));
    for (size_t i = 0; i < t->rank; i++) {
        bytes *= t->dims[i];
    }
    return bytes;
}

// Whether model input i is the fed one.
static bool is_fed(const model_t *self, uint32_t i) {
    return i == mica_fed_input(self->engine);
}

// f(begin, end, buffer): null where it has filled the buffer, which it says with None or the number of bytes.
static void fill_by(model_t *self, const mica_tensor_t *t, mp_obj_t f, uint32_t begin, uint32_t end) {
    mp_mica_span_t span;
    check_arena(self, &span);
    mp_obj_t args[] = {
        MP_OBJ_NEW_SMALL_INT(begin), MP_OBJ_NEW_SMALL_INT(end), tensor_view(self, t, &span, true),
    };
    mp_obj_t filled = mp_call_function_n_kw(f, 3, 0, args);
    if (filled != mp_const_none && (mp_uint_t)mp_mica_get_int(filled) != t->bytes) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("rows %u to %u of the input: the function has filled %d of %u bytes"),
            (unsigned)begin, (unsigned)end, (int)mp_mica_get_int(filled), (unsigned)t->bytes);
    }
    model_in_place(MP_OBJ_FROM_PTR(self)); // it may have closed the model, or moved the arena
}

// What the engine calls for rows [begin, end). What raises ends the run.
static void feed(void *context, uint32_t begin, uint32_t end, void *rows) {
    model_t *self = context;
    mica_tensor_t t;
    const uint32_t id = mica_input_id(self->engine, mica_fed_input(self->engine));
    tensor_of(self, id, &t);
    const uint32_t size = (uint32_t)element_size(mp_mica_typecode(t.dtype)), n = whole_bytes(&t) / size;
    mica_rows_made(self->engine, id, &t); // bytes by what was there at load, whatever the file says now
    t.data = rows;
    if (self->source == MP_OBJ_NULL) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the input is fed: give the run a buffer with all rows, or a function"));
    }
    if (mp_obj_is_callable(self->source)) {
        fill_by(self, &t, self->source, begin, end);
    } else {
        mp_mica_values_store_part(&t, self->source, n, begin * (t.bytes / (end - begin)) / size);
    }
}

static void need_instead(model_t *self) {
    if (self->instead == NULL) {
        self->instead = m_new0(mp_obj_t, mica_model_info(self->engine)->n_steps);
    }
}

mp_obj_t mp_mica_model_load(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    enum { ARG_buf, ARG_arena, ARG_missing_kernels };
    static const mp_arg_t allowed[] = {
        { MP_QSTR_buf, MP_ARG_OBJ | MP_ARG_REQUIRED, { .u_rom_obj = MP_ROM_NONE } },
        { MP_QSTR_arena, MP_ARG_OBJ, { .u_rom_obj = MP_ROM_NONE } },
        { MP_QSTR_missing_kernels, MP_ARG_KW_ONLY | MP_ARG_BOOL, { .u_bool = false } },
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all(n_args, pos_args, kw_args, MP_ARRAY_SIZE(allowed), allowed, args);

    model_t *self = mp_obj_malloc(model_t, &mp_mica_model_type);
    memset((uint8_t *)self + sizeof(mp_obj_base_t), 0, sizeof(*self) - sizeof(mp_obj_base_t));
    take_file(self, args[ARG_buf].u_obj);

    mica_info_t info;
    mica_error_t err;
    if (mica_check(self->file_data, self->file_bytes, &info, &err) != MICA_OK) {
        mp_mica_raise(&err, self->file_data, self->file_bytes);
    }
    self->file_bytes = info.file_bytes;
    take_arena(self, args[ARG_arena].u_obj, &info);
    mp_mica_arena_arm(self->arena);
    self->tables = m_malloc(info.model_bytes);
    if (info.state_bytes != 0) {
        self->state = m_malloc(info.state_bytes);
    }
    self->steps = new_steps(self, info.n_steps);
    self->id = mp_mica_arena_new_id();

    // After the last allocation: from here on nothing else runs that could move a caller's arena.
    mp_mica_span_t span;
    mp_mica_arena_span(self->arena, &span);
    self->arena_data = span.data;
    self->arena_bytes = span.bytes;
    uint64_t least = (uint64_t)info.arena_bytes + info.scratch_min;
    if (span.data == NULL || span.bytes < least) {
        // Said here rather than by the engine because of the bytes that rounding up and the control block take.
        mp_raise_msg_varg(&mp_type_MemoryError, MP_ERROR_TEXT("arena: %u usable bytes, the model needs %u%s"),
            (unsigned)span.bytes, (unsigned)least,
            self->arena->source == MP_OBJ_NULL ? "" : "; a buffer needs up to 31 more");
    }
    uint32_t options = MICA_LOAD_CHECKED | (args[ARG_missing_kernels].u_bool ? MICA_LOAD_MISSING_KERNELS : 0);
    if (mica_load_with(options, self->tables, info.model_bytes, self->file_data, self->file_bytes, span.data, span.bytes, self->state,
        info.state_bytes, &self->engine, &err) != MICA_OK) {
        self->engine = NULL;
        mp_mica_raise(&err, self->file_data, self->file_bytes);
    }
    join_strips(self);
    mica_set_feed(self->engine, feed, self);
    // The engine knows its addresses now. A buffer may grow or shrink in place, as long as it covers what is used.
    for (uint32_t i = 0; i < info.n_steps; i++) {
        if (!mica_step_has_kernel(self->engine, i)) {
            need_instead(self);
            break;
        }
    }
    return MP_OBJ_FROM_PTR(self);
}

// ---- Running ----

// begin(): the arena is this model's until end(). A second run, from a hook, a timer or a thread, is refused.
static mp_obj_t model_begin(mp_obj_t self_in) {
    model_t *self = model_of(self_in);
    mp_mica_span_t span;
    check_arena(self, &span);
    if (!mp_mica_arena_take(&span, self->id)) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("arena is busy: a run in it has not ended; its model's stop() gives it up"));
    }
    if (!mp_mica_arena_intact(self->arena)) {
        mp_mica_arena_release(&span, self->id);
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("somebody wrote past the arena's end: load the model again"));
    }
    self->finished = mica_model_info(self->engine)->n_steps == 0;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_begin_obj, model_begin);

// end(): does nothing unless this model is the one that is running, and never raises, so it fits in a `finally`.
static mp_obj_t model_end(mp_obj_t self_in) {
    model_t *self = MP_OBJ_TO_PTR(self_in);
    mp_mica_span_t span;
    mp_mica_arena_span(self->arena, &span);
    mp_mica_arena_release(&span, self->id);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_end_obj, model_end);

// finish(): the last step's work has been done by somebody else, so the outputs are there.
static mp_obj_t model_finish(mp_obj_t self_in) {
    model_t *self = model_in_place(self_in);
    self->finished = true;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_finish_obj, model_finish);

// Whether a step does not run in the engine; such a step is one row, since a function in its place does all of it.
static bool runs_elsewhere(const model_t *self, uint32_t i) {
    return self->instead != NULL && (self->instead[i] != MP_OBJ_NULL || !mica_step_has_kernel(self->engine, i));
}

static uint32_t rows_of(const model_t *self, uint32_t i) {
    return runs_elsewhere(self, i) ? 1 : mica_step_rows(self->engine, i);
}

static void run_rows(const model_t *self, uint32_t i, uint32_t begin, uint32_t end) {
    if (!runs_elsewhere(self, i)) {
        mp_mica_run_rows(self->engine, i, begin, end);
    } else if (self->instead[i] != MP_OBJ_NULL) {
        mp_call_function_0(self->instead[i]);
    } else {
        mp_raise_msg_varg(&mp_type_RuntimeError, MP_ERROR_TEXT("step %u: this firmware lacks its kernel"), (unsigned)i);
    }
}

// The same of a strip. A function in the place of one of its steps does all rows of a call at once.
static void run_strip(const model_t *self, uint32_t i, uint32_t begin, uint32_t end) {
    while (begin < end) {
        mica_call_t call;
        if (!mica_strip_next(self->engine, i, begin, &call)) {
            mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("row %u of the strip: its rows run from 0 on, one behind the other"),
                (unsigned)begin);
        }
        const uint32_t rows = MIN(call.rows - call.row, end - begin);
        if (!runs_elsewhere(self, call.step)) {
            mp_mica_run_rows(self->engine, call.piece, call.row * call.scale, (call.row + rows) * call.scale);
        } else if (call.row == 0) {
            run_rows(self, call.step, 0, 1);
        }
        mica_strip_ran(self->engine, rows);
        begin += rows;
    }
}

// Runs rows [begin, end) of a step; true when they were the last.
static bool step_rows(const model_t *model, uint32_t i, bool strip, const mp_obj_t *range) {
    const mp_int_t begin = mp_mica_get_int(range[0]), end = mp_mica_get_int(range[1]);
    const uint32_t rows = strip ? mica_step_rows(model->engine, i) : rows_of(model, i);
    if (begin < 0 || begin >= end || (mp_uint_t)end > rows) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("rows %d to %d: this layer has %u"), (int)begin, (int)end,
            (unsigned)rows);
    }
    if (strip) {
        run_strip(model, i, (uint32_t)begin, (uint32_t)end);
    } else {
        run_rows(model, i, (uint32_t)begin, (uint32_t)end);
    }
    return (mp_uint_t)end == rows;
}

// step(): the whole layer. step(begin, end): these rows of it, for those who want to do something else in between.
static mp_obj_t step_call(mp_obj_t self_in, size_t n_args, size_t n_kw, const mp_obj_t *args) {
    if (n_args + n_kw != 0) {
        mp_arg_check_num(n_args, n_kw, 2, 2, false);
    }
    step_t *self = MP_OBJ_TO_PTR(self_in);
    model_t *model = model_of(MP_OBJ_FROM_PTR(self->model));
    if (model->arena->source != MP_OBJ_NULL) {
        mp_mica_span_t span;
        check_arena(model, &span);
    }
    if (n_args != 0) {
        if (!step_rows(model, self->index, self->strip, args)) {
            return mp_const_none; // there are more rows
        }
    } else if (self->strip) {
        run_strip(model, self->index, 0, mica_step_rows(model->engine, self->index));
    } else if (runs_elsewhere(model, self->index)) {
        run_rows(model, self->index, 0, 1);
    } else {
        mp_mica_run_step(model->engine, self->index);
    }
    if (self->last) {
        model->finished = true;
    }
    return mp_const_none;
}

static void step_print(const mp_print_t *print, mp_obj_t self_in, mp_print_kind_t kind) {
    (void)kind;
    step_t *self = MP_OBJ_TO_PTR(self_in);
    mp_printf(print, "<step %u>", (unsigned)self->index);
}

// rows: into how many pieces step(begin, end) can cut the layer. first: its index. strip: of how many layers from there on it is
// a strip, 0 for a layer alone.
static void step_attr(mp_obj_t self_in, qstr attr, mp_obj_t *dest) {
    const step_t *self = MP_OBJ_TO_PTR(self_in);
    if (dest[0] != MP_OBJ_NULL) {
        return;
    }
    if (attr == MP_QSTR_rows) {
        const model_t *model = model_of(MP_OBJ_FROM_PTR(self->model));
        dest[0] = mp_obj_new_int_from_uint(self->strip ? mica_step_rows(model->engine, self->index) : rows_of(model, self->index));
    } else if (attr == MP_QSTR_first) {
        dest[0] = MP_OBJ_NEW_SMALL_INT(self->index);
    } else if (attr == MP_QSTR_strip) {
        const model_t *model = model_of(MP_OBJ_FROM_PTR(self->model));
        dest[0] = MP_OBJ_NEW_SMALL_INT(self->strip ? mica_strip_steps(model->engine, self->index) : 0);
    }
}

MP_DEFINE_CONST_OBJ_TYPE(
    mp_mica_step_type,
    MP_QSTR_step,
    MP_TYPE_FLAG_NONE,
    print, step_print,
    attr, step_attr,
    call, step_call
    );

// deinit(): drops the file, the tables and the arena. Views that somebody still holds keep their own block alive.
static mp_obj_t model_deinit(mp_obj_t self_in) {
    model_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->engine == NULL) {
        return mp_const_none;
    }
    mp_mica_span_t span;
    mp_mica_arena_span(self->arena, &span);
    if (span.control != NULL && span.control->busy == self->id && mp_mica_arena_owner(&span) == self->id) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the model is running"));
    }
    self->engine = NULL;
    self->tables = NULL;
    self->file = mp_const_none;
    self->file_head = NULL;
    self->file_data = NULL;
    self->file_bytes = 0;
    self->state = NULL;
    self->instead = NULL;
    self->source = MP_OBJ_NULL;
    self->arena = &mp_mica_arena_static; // anything that is not null: another thread may be inside a step
    self->steps = mp_const_empty_tuple;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_deinit_obj, model_deinit);

// ---- Tensors ----

static uint32_t input_id(const model_t *self, mp_obj_t index) {
    return mica_input_id(self->engine, index_of(index, mica_model_info(self->engine)->n_inputs, "input"));
}

static uint32_t output_id(const model_t *self, mp_obj_t index) {
    return mica_output_id(self->engine, index_of(index, mica_model_info(self->engine)->n_outputs, "output"));
}

static mp_obj_t model_input(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    mp_mica_span_t span;
    check_arena(self, &span);
    mica_tensor_t t;
    const uint32_t id = input_id(self, index);
    tensor_of(self, id, &t);
    if (t.space == MICA_SPACE_ROWS) {
        mp_raise_msg_varg(&mp_type_RuntimeError, MP_ERROR_TEXT("input %d is fed, it exists as a few rows only: give predict() a "
            "buffer, or a function f(begin, end, buffer)"), (int)mp_mica_get_int(index));
    }
    return tensor_view(self, &t, &span, true);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_input_obj, model_input);

static model_t *model_with_outputs(mp_obj_t self_in, mp_mica_span_t *span) {
    model_t *self = model_of(self_in);
    check_arena(self, span);
    if (mp_mica_arena_owner(span) != self->id) {
        mp_raise_msg(&mp_type_RuntimeError, self->finished
            ? MP_ERROR_TEXT("no outputs: another model ran in this arena since")
            : MP_ERROR_TEXT("no outputs: the model has not run"));
    }
    if (!self->finished) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("no outputs: the run did not reach its last step"));
    }
    return self;
}

static mp_obj_t model_output(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_span_t span;
    model_t *self = model_with_outputs(self_in, &span);
    mica_tensor_t t;
    tensor_of(self, output_id(self, index), &t);
    return tensor_view(self, &t, &span, true);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_output_obj, model_output);

// write(i, values): values quantised into input i; of the fed input its buffer or function, which is kept for all runs to come. read(i): output i as a list of floats.
static mp_obj_t model_write(mp_obj_t self_in, mp_obj_t index, mp_obj_t values) {
    model_t *self = model_to_write(self_in);
    mica_tensor_t t;
    tensor_of(self, input_id(self, index), &t);
    if (t.space == MICA_SPACE_DATA) {
        mp_raise_TypeError(MP_ERROR_TEXT("this input is a constant"));
    }
    if (is_fed(self, (uint32_t)mp_mica_get_int(index))) {
        if (!mp_obj_is_callable(values)) {
            mp_mica_values_check(&t, values, whole_bytes(&t) / (uint32_t)element_size(mp_mica_typecode(t.dtype)));
        }
        self->source = values;
        return mp_const_none;
    }
    mp_mica_values_store(&t, values);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_3(model_write_obj, model_write);

static mp_obj_t model_read(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_span_t span;
    model_t *self = model_with_outputs(self_in, &span);
    mica_tensor_t t;
    tensor_of(self, output_id(self, index), &t);
    return mp_mica_values_load(&t);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_read_obj, model_read);

// read_into(i, buffer): the same into a buffer of floats, or the tensor's own bytes into one of those.
static mp_obj_t model_read_into(mp_obj_t self_in, mp_obj_t index, mp_obj_t buffer) {
    mp_mica_span_t span;
    model_t *self = model_with_outputs(self_in, &span);
    mica_tensor_t t;
    tensor_of(self, output_id(self, index), &t);
    mp_mica_values_load_into(&t, buffer);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_3(model_read_into_obj, model_read_into);

static mp_obj_t model_tensor(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    mica_tensor_t t;
    tensor_of(self, index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), &t);
    mp_obj_t dims[MICA_MAX_RANK];
    for (size_t i = 0; i < t.rank; i++) {
        dims[i] = mp_obj_new_int_from_uint(t.dims[i]);
    }
    const char typecode = mp_mica_typecode(t.dtype);
    static const qstr fields[] = {
        MP_QSTR_name, MP_QSTR_dtype, MP_QSTR_shape, MP_QSTR_scale, MP_QSTR_zero_point, MP_QSTR_nbytes,
    };
    mp_obj_t items[] = {
        name_of(self, t.name),
        mp_obj_new_str(&typecode, 1),
        mp_obj_new_tuple(t.rank, dims),
        mp_obj_new_float((mp_float_t)t.scale),
        mp_obj_new_int(t.zero_point),
        mp_obj_new_int_from_uint(whole_bytes(&t)),
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_tensor_obj, model_tensor);

// tensor_data(id): a copy of whatever the tensor's bytes hold now; in mid-run that is a layer's output.
static mp_obj_t model_tensor_data(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_in_place(self_in);
    mica_tensor_t t;
    tensor_of(self, index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), &t);
    return mp_obj_new_bytes(t.data, t.bytes);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_tensor_data_obj, model_tensor_data);

// tensor_view(id, writable=False): the bytes themselves, without a copy. A constant is never writable.
static mp_obj_t model_tensor_view(size_t n_args, const mp_obj_t *args) {
    bool writable = n_args > 2 && mp_obj_is_true(args[2]); // first of all: a __bool__ could close the model
    model_t *self = model_of(args[0]);
    mp_mica_span_t span;
    check_arena(self, &span);
    mica_tensor_t t;
    tensor_of(self, index_of(args[1], mica_model_info(self->engine)->n_tensors, "tensor"), &t);
    return tensor_view(self, &t, &span, writable);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(model_tensor_view_obj, 2, 3, model_tensor_view);

// ---- Strips, call by call ----

// call(i, at): in strip i, which begins with step i, the call that row `at` belongs to: its step << 16, plus how many rows of it
// are left; 0 at the end. What it is to read and write is in place then. 0 begins again.
static mp_obj_t model_call(mp_obj_t self_in, mp_obj_t index, mp_obj_t at_in) {
    model_t *self = model_in_place(self_in);
    const uint32_t i = index_of(index, mica_model_info(self->engine)->n_steps, "step");
    const mp_int_t at = mp_mica_get_int(at_in);
    mica_call_t call;
    if (at < 0 || !mica_strip_next(self->engine, i, (uint32_t)at, &call)) {
        return MP_OBJ_NEW_SMALL_INT(0);
    }
    return mp_obj_new_int_from_uint(call.step << 16 | (call.rows - call.row));
}
static MP_DEFINE_CONST_FUN_OBJ_3(model_call_obj, model_call);

// in_strip(i): whether step i is part of a strip.
static mp_obj_t model_in_strip(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    const uint32_t i = index_of(index, mica_model_info(self->engine)->n_steps, "step");
    return mp_obj_new_bool(mica_in_strip(self->engine, i));
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_in_strip_obj, model_in_strip);

// ran(n): somebody else has made n rows of the call that call() has named.
static mp_obj_t model_ran(mp_obj_t self_in, mp_obj_t rows) {
    model_t *self = model_in_place(self_in);
    if (mica_has_strips(self->engine)) {
        mica_strip_ran(self->engine, (uint32_t)mp_mica_get_int(rows));
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_ran_obj, model_ran);

// rows(id): (first, made, have): rows [first, have) of a tensor are in memory, of which the last call made [made, have).
static mp_obj_t model_rows(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    uint32_t v[3];
    mica_tensor_rows(self->engine, index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), &v[0], &v[1], &v[2]);
    mp_obj_t items[] = { mp_obj_new_int_from_uint(v[0]), mp_obj_new_int_from_uint(v[1]), mp_obj_new_int_from_uint(v[2]) };
    return mp_obj_new_tuple(3, items);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_rows_obj, model_rows);

// ---- Self-test ----

// golden(i): vector i of the file: all inputs, then all outputs, each padded to 4 bytes; read only.
static mp_obj_t model_golden(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    uint32_t i = index_of(index, mica_golden_count(self->engine), "golden vector");
    void *vector = (void *)(uintptr_t)mica_golden(self->engine, i); // read only, says the view
    return new_view(self->file_head, vector, mica_golden_bytes(self->engine), 'B', false);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_golden_obj, model_golden);

// golden_crcs(i): CRC-32 of each step's output in vector i, a view of 32-bit numbers; None where the file has none.
static mp_obj_t model_golden_crcs(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    uint32_t i = index_of(index, mica_golden_count(self->engine), "golden vector");
    const uint8_t *crcs = mica_golden_crcs(self->engine, i);
    return crcs == NULL ? mp_const_none
        : new_view(self->file_head, (void *)(uintptr_t)crcs, 4 * (size_t)mica_model_info(self->engine)->n_steps, 'I', false);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_golden_crcs_obj, model_golden_crcs);

// check([n]): compares the file's checksum with that at load, n bytes further at each call. Returns the bytes that are
// left, 0 when all of it was right, and begins again; raises ValueError where the file has changed. Allocates nothing.
// check(0) begins again at once: part of a check that was interrupted says nothing about what has changed since.
static mp_obj_t model_check(size_t n_args, const mp_obj_t *args) {
    model_t *self = model_of(args[0]);
    const mica_info_t *info = mica_model_info(self->engine);
    uint32_t left = info->file_bytes - self->check_at;
    if (n_args > 1) {
        mp_int_t n = mp_mica_get_int(args[1]);
        if (n < 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("check: a number of bytes from 0 is expected"));
        }
        if (n == 0) {
            self->check_at = self->check_crc = 0;
        }
        left = (mp_uint_t)n < left ? (uint32_t)n : left;
    }
    self->check_crc = mica_file_crc(self->engine, self->check_crc, self->check_at, self->check_at + left);
    self->check_at += left;
    left = info->file_bytes - self->check_at;
    if (left == 0) {
        uint32_t crc = self->check_crc;
        self->check_at = self->check_crc = 0;
        if (crc != info->crc32) {
            mp_raise_ValueError(MP_ERROR_TEXT("the model's file has changed since it was loaded: load it again"));
        }
    }
    return mp_obj_new_int_from_uint(left);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(model_check_obj, 1, 2, model_check);

// rearm(): the guard words round the arena are written again, as at load.
static mp_obj_t model_rearm(mp_obj_t self_in) {
    mp_mica_arena_arm(model_of(self_in)->arena);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_rearm_obj, model_rearm);

// reset_state(): state tensors back to their zero points, as after load.
static mp_obj_t model_reset_state(mp_obj_t self_in) {
    mica_reset_state(model_of(self_in)->engine);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_reset_state_obj, model_reset_state);

// put_state(kept): the state is again what bytes(state) had. Fits in a `finally`: it allocates nothing and never raises, and
// with None, bytes of another size or a closed model it does nothing.
static mp_obj_t model_put_state(mp_obj_t self_in, mp_obj_t kept) {
    model_t *self = MP_OBJ_TO_PTR(self_in);
    mp_buffer_info_t buf;
    if (self->state != NULL && kept != mp_const_none && mp_get_buffer(kept, &buf, MP_BUFFER_READ)
        && buf.len == mica_model_info(self->engine)->state_bytes) {
        memcpy(self->state, buf.buf, buf.len);
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_put_state_obj, model_put_state);

// ---- Layers ----

static mp_obj_t ids_tuple(const uint16_t *ids, size_t max) {
    mp_obj_t items[MICA_MAX_INPUTS > MICA_MAX_OUTPUTS ? MICA_MAX_INPUTS : MICA_MAX_OUTPUTS];
    size_t n = 0;
    for (size_t i = 0; i < max; i++) {
        if (ids[i] != MICA_NO_TENSOR) {
            items[n++] = MP_OBJ_NEW_SMALL_INT(ids[i]);
        }
    }
    return mp_obj_new_tuple(n, items);
}

static uint32_t step_index(const model_t *self, mp_obj_t index) {
    return index_of(index, mica_model_info(self->engine)->n_steps, "step");
}

static mp_obj_t model_step_info(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    mica_step_info_t s;
    uint32_t i = step_index(self, index);
    mica_step_info(self->engine, i, &s);
    bool instead = self->instead != NULL && self->instead[i] != MP_OBJ_NULL;
    static const qstr fields[] = {
        MP_QSTR_name, MP_QSTR_kernel, MP_QSTR_macs, MP_QSTR_inputs, MP_QSTR_outputs, MP_QSTR_scratch_min,
        MP_QSTR_scratch_want, MP_QSTR_flags, MP_QSTR_layout, MP_QSTR_runs_in,
    };
    mp_obj_t items[] = {
        name_of(self, s.name),
        mp_mica_new_str(mica_kernel_name(s.kernel), 64),
        mp_obj_new_int_from_uint(s.macs),
        ids_tuple(s.inputs, MICA_MAX_INPUTS),
        ids_tuple(s.outputs, MICA_MAX_OUTPUTS),
        mp_obj_new_int_from_uint(s.scratch_min),
        mp_obj_new_int_from_uint(s.scratch_want),
        MP_OBJ_NEW_SMALL_INT(s.flags),
        MP_OBJ_NEW_SMALL_INT(s.layout),
        instead ? MP_OBJ_NEW_QSTR(MP_QSTR_Python) : mica_step_has_kernel(self->engine, i) ? MP_OBJ_NEW_QSTR(MP_QSTR_C) :
        mp_const_none,
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_step_info_obj, model_step_info);

// load(id), store(id, values): a tensor as a list of numbers; numbers quantised into it, or bytes copied.
static mp_obj_t model_load_tensor(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_in_place(self_in);
    mica_tensor_t t;
    tensor_of(self, index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), &t);
    return mp_mica_values_load(&t);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_load_tensor_obj, model_load_tensor);

static mp_obj_t model_store_tensor(mp_obj_t self_in, mp_obj_t index, mp_obj_t values) {
    model_t *self = model_to_write(self_in);
    mica_tensor_t t;
    tensor_of(self, index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), &t);
    if (t.space == MICA_SPACE_DATA) {
        mp_raise_TypeError(MP_ERROR_TEXT("this tensor is a constant"));
    }
    mp_mica_values_store(&t, values);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_3(model_store_tensor_obj, model_store_tensor);

// ---- Steps that do not run in the engine: what a function in their place has to know ----

// step_params(i): all parameters of a step, in the order of its record.
static mp_obj_t model_step_params(mp_obj_t self_in, mp_obj_t index) {
    model_t *self = model_of(self_in);
    uint32_t i = step_index(self, index);
    mp_obj_t items[MICA_MAX_PARAMS];
    for (uint32_t k = 0; k < MICA_MAX_PARAMS; k++) {
        items[k] = mp_obj_new_int(mica_step_param(self->engine, i, k));
    }
    return mp_obj_new_tuple(MICA_MAX_PARAMS, items);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_step_params_obj, model_step_params);

// step_constant(i, k, typecode): constant k of step i where it lies; empty where there is none.
static mp_obj_t model_step_constant(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    model_t *self = model_of(args[0]);
    uint32_t bytes, i = step_index(self, args[1]), k = index_of(args[2], MICA_MAX_BLOBS, "constant");
    size_t len;
    const char *typecode = mp_obj_str_get_data(args[3], &len);
    if (len != 1 || *typecode == 0 || strchr("bBhHiI", *typecode) == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("typecode: one of b B h H i I is expected"));
    }
    const void *data = mica_step_constant(self->engine, i, k, &bytes);
    if (data == NULL || bytes % element_size(*typecode) != 0) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("step %u: constant %u does not lie in the file; pack the model again"),
            (unsigned)i, (unsigned)k);
    }
    return new_view(self->file_head, (void *)(uintptr_t)data, bytes, *typecode, false); // read only, says the view
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(model_step_constant_obj, 4, 4, model_step_constant);

// replace(i, f): from now on step i calls f(); with None it is the engine's again.
static mp_obj_t model_replace(mp_obj_t self_in, mp_obj_t index, mp_obj_t f) {
    model_t *self = model_of(self_in);
    uint32_t i = step_index(self, index);
    if (f != mp_const_none && !mp_obj_is_callable(f)) {
        mp_raise_TypeError(MP_ERROR_TEXT("a function is expected, or None"));
    }
    need_instead(self);
    self->instead[i] = f == mp_const_none ? MP_OBJ_NULL : f;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_3(model_replace_obj, model_replace);

static mp_obj_t model_meta(mp_obj_t self_in, mp_obj_t key) {
    model_t *self = model_of(self_in);
    return name_of(self, mica_metadata(self->engine, mp_obj_str_get_str(key)));
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_meta_obj, model_meta);

static mp_obj_t model_tokens(mp_obj_t self_in) {
    return mp_mica_tokens(model_of(self_in)->engine);
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_tokens_obj, model_tokens);

static mp_obj_t model_piece(mp_obj_t self_in, mp_obj_t token) {
    return mp_mica_piece(model_of(self_in)->engine, token);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_piece_obj, model_piece);

static mp_obj_t model_encode(mp_obj_t self_in, mp_obj_t text) {
    return mp_mica_encode(model_of(self_in)->engine, text);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_encode_obj, model_encode);

// ---- Attributes ----

static mp_obj_t model_info(const model_t *self) {
    const mica_info_t *info = mica_model_info(self->engine);
    mp_obj_t version[] = { MP_OBJ_NEW_SMALL_INT(info->version_major), MP_OBJ_NEW_SMALL_INT(info->version_minor) };
    static const qstr fields[] = {
        MP_QSTR_version, MP_QSTR_file_bytes, MP_QSTR_arena_bytes, MP_QSTR_scratch_min, MP_QSTR_scratch_want,
        MP_QSTR_state_bytes, MP_QSTR_table_bytes, MP_QSTR_n_tensors, MP_QSTR_n_steps, MP_QSTR_n_inputs,
        MP_QSTR_n_outputs, MP_QSTR_n_golden,
    };
    mp_obj_t items[] = {
        mp_obj_new_tuple(2, version),
        mp_obj_new_int_from_uint(info->file_bytes),
        mp_obj_new_int_from_uint(info->arena_bytes),
        mp_obj_new_int_from_uint(info->scratch_min),
        mp_obj_new_int_from_uint(info->scratch_want),
        mp_obj_new_int_from_uint(info->state_bytes),
        mp_obj_new_int_from_uint(info->model_bytes),
        mp_obj_new_int_from_uint(info->n_tensors),
        mp_obj_new_int_from_uint(info->n_steps),
        mp_obj_new_int_from_uint(info->n_inputs),
        mp_obj_new_int_from_uint(info->n_outputs),
        mp_obj_new_int_from_uint(mica_golden_count(self->engine)),
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}

// Activations, scratch, state, tables, and the file unless it stays in flash.
static mp_obj_t model_ram(const model_t *self) {
    const mica_info_t *info = mica_model_info(self->engine);
    uint64_t bytes = (uint64_t)info->arena_bytes + info->scratch_want + info->state_bytes + info->model_bytes;
    if (mp_mica_on_heap(self->file_data)) {
        bytes += info->file_bytes;
    }
    return mp_obj_new_int_from_ull(bytes);
}

static mp_obj_t io_ids(const model_t *self, uint32_t n, uint16_t (*id_of)(const mica_model_t *, uint32_t)) {
    mp_obj_tuple_t *ids = MP_OBJ_TO_PTR(mp_obj_new_tuple(n, NULL));
    for (uint32_t i = 0; i < n; i++) {
        ids->items[i] = MP_OBJ_NEW_SMALL_INT(id_of(self->engine, i));
    }
    return MP_OBJ_FROM_PTR(ids);
}

// Indices of the steps whose kernel this firmware lacks, whatever replace() did about them.
static mp_obj_t model_missing_kernels(const model_t *self) {
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint32_t i = 0; i < mica_model_info(self->engine)->n_steps; i++) {
        if (!mica_step_has_kernel(self->engine, i)) {
            mp_obj_list_append(list, MP_OBJ_NEW_SMALL_INT(i));
        }
    }
    return list;
}

static void model_attr(mp_obj_t self_in, qstr attr, mp_obj_t *dest) {
    if (dest[0] != MP_OBJ_NULL) {
        return; // attributes are read only
    }
    switch (attr) {
        case MP_QSTR_steps:
            dest[0] = model_of(self_in)->steps;
            break;
        case MP_QSTR_strips:
            dest[0] = mp_obj_new_bool(mica_has_strips(model_of(self_in)->engine));
            break;
        case MP_QSTR_fed: { // place of the fed input, None
            const uint32_t i = mica_fed_input(model_of(self_in)->engine);
            dest[0] = i == UINT32_MAX ? mp_const_none : MP_OBJ_NEW_SMALL_INT(i);
            break;
        }
        case MP_QSTR_source: // of the fed input, None
            dest[0] = model_of(self_in)->source == MP_OBJ_NULL ? mp_const_none : model_of(self_in)->source;
            break;
        case MP_QSTR_copied:
            dest[0] = mp_obj_new_bool(model_of(self_in)->copied);
            break;
        case MP_QSTR_arena:
            dest[0] = MP_OBJ_FROM_PTR(model_of(self_in)->arena);
            break;
        case MP_QSTR_state: {
            // All state tensors, to keep a copy and put it back: writable.
            model_t *self = model_of(self_in);
            dest[0] = self->state == NULL ? mp_const_none
                : new_view(self->state, self->state, mica_model_info(self->engine)->state_bytes, 'B', true);
            break;
        }
        case MP_QSTR_ram:
            dest[0] = model_ram(model_of(self_in));
            break;
        case MP_QSTR_info:
            dest[0] = model_info(model_of(self_in));
            break;
        case MP_QSTR_missing_kernels:
            dest[0] = model_missing_kernels(model_of(self_in));
            break;
        case MP_QSTR_inputs: {
            model_t *self = model_of(self_in);
            dest[0] = io_ids(self, mica_model_info(self->engine)->n_inputs, mica_input_id);
            break;
        }
        case MP_QSTR_outputs: {
            model_t *self = model_of(self_in);
            dest[0] = io_ids(self, mica_model_info(self->engine)->n_outputs, mica_output_id);
            break;
        }
        default:
            dest[1] = MP_OBJ_SENTINEL; // the methods below
            break;
    }
}

static void model_print(const mp_print_t *print, mp_obj_t self_in, mp_print_kind_t kind) {
    (void)kind;
    model_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->engine == NULL) {
        mp_print_str(print, "<Model, closed>");
    } else {
        mp_printf(print, "<Model of %u steps>", (unsigned)mica_model_info(self->engine)->n_steps);
    }
}

static const mp_rom_map_elem_t model_locals_table[] = {
    { MP_ROM_QSTR(MP_QSTR_begin), MP_ROM_PTR(&model_begin_obj) },
    { MP_ROM_QSTR(MP_QSTR_end), MP_ROM_PTR(&model_end_obj) },
    { MP_ROM_QSTR(MP_QSTR_finish), MP_ROM_PTR(&model_finish_obj) },
    { MP_ROM_QSTR(MP_QSTR_input), MP_ROM_PTR(&model_input_obj) },
    { MP_ROM_QSTR(MP_QSTR_output), MP_ROM_PTR(&model_output_obj) },
    { MP_ROM_QSTR(MP_QSTR_write), MP_ROM_PTR(&model_write_obj) },
    { MP_ROM_QSTR(MP_QSTR_read), MP_ROM_PTR(&model_read_obj) },
    { MP_ROM_QSTR(MP_QSTR_read_into), MP_ROM_PTR(&model_read_into_obj) },
    { MP_ROM_QSTR(MP_QSTR_tensor), MP_ROM_PTR(&model_tensor_obj) },
    { MP_ROM_QSTR(MP_QSTR_tensor_data), MP_ROM_PTR(&model_tensor_data_obj) },
    { MP_ROM_QSTR(MP_QSTR_tensor_view), MP_ROM_PTR(&model_tensor_view_obj) },
    { MP_ROM_QSTR(MP_QSTR_load), MP_ROM_PTR(&model_load_tensor_obj) },
    { MP_ROM_QSTR(MP_QSTR_store), MP_ROM_PTR(&model_store_tensor_obj) },
    { MP_ROM_QSTR(MP_QSTR_step_info), MP_ROM_PTR(&model_step_info_obj) },
    { MP_ROM_QSTR(MP_QSTR_step_params), MP_ROM_PTR(&model_step_params_obj) },
    { MP_ROM_QSTR(MP_QSTR_step_constant), MP_ROM_PTR(&model_step_constant_obj) },
    { MP_ROM_QSTR(MP_QSTR_replace), MP_ROM_PTR(&model_replace_obj) },
    { MP_ROM_QSTR(MP_QSTR_meta), MP_ROM_PTR(&model_meta_obj) },
    { MP_ROM_QSTR(MP_QSTR_tokens), MP_ROM_PTR(&model_tokens_obj) },
    { MP_ROM_QSTR(MP_QSTR_piece), MP_ROM_PTR(&model_piece_obj) },
    { MP_ROM_QSTR(MP_QSTR_encode), MP_ROM_PTR(&model_encode_obj) },
    { MP_ROM_QSTR(MP_QSTR_call), MP_ROM_PTR(&model_call_obj) },
    { MP_ROM_QSTR(MP_QSTR_in_strip), MP_ROM_PTR(&model_in_strip_obj) },
    { MP_ROM_QSTR(MP_QSTR_ran), MP_ROM_PTR(&model_ran_obj) },
    { MP_ROM_QSTR(MP_QSTR_rows), MP_ROM_PTR(&model_rows_obj) },
    { MP_ROM_QSTR(MP_QSTR_golden), MP_ROM_PTR(&model_golden_obj) },
    { MP_ROM_QSTR(MP_QSTR_golden_crcs), MP_ROM_PTR(&model_golden_crcs_obj) },
    { MP_ROM_QSTR(MP_QSTR_check), MP_ROM_PTR(&model_check_obj) },
    { MP_ROM_QSTR(MP_QSTR_rearm), MP_ROM_PTR(&model_rearm_obj) },
    { MP_ROM_QSTR(MP_QSTR_reset_state), MP_ROM_PTR(&model_reset_state_obj) },
    { MP_ROM_QSTR(MP_QSTR_put_state), MP_ROM_PTR(&model_put_state_obj) },
    { MP_ROM_QSTR(MP_QSTR_deinit), MP_ROM_PTR(&model_deinit_obj) },
};
static MP_DEFINE_CONST_DICT(model_locals, model_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(
    mp_mica_model_type,
    MP_QSTR_Model,
    MP_TYPE_FLAG_NONE,
    print, model_print,
    attr, model_attr,
    locals_dict, &model_locals
    );

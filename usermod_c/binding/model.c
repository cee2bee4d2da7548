// _mica.load() and _mica.Model: a loaded file, and the table of its methods.

#include <string.h>

#include "py/objarray.h"
#include "py/objstr.h"
#include "py/objtuple.h"

#include "model.h"

// ---- Loading ----

// The start of the heap block that holds an object's bytes, null if we cannot tell: only these three keep it.
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

// Whether the bytes can be used where they are, for as long as `obj` lives. Writable buffers can move under their
// views, except an Arena, which never moves.
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

static void take_file(mp_mica_model_t *self, mp_obj_t obj) {
    if (mp_obj_is_str(obj)) {
        mp_raise_TypeError(MP_ERROR_TEXT("the bytes of a model are expected; mica.Model(path) opens files"));
    }
    mp_buffer_info_t buf;
    if (!mp_get_buffer(obj, &buf, MP_BUFFER_READ)) {
        mp_raise_msg_varg(&mp_type_TypeError,
            MP_ERROR_TEXT("a path, or the bytes of a .mica file, are expected, not %s"), mp_obj_get_type_str(obj));
    }
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
    // Aligned, because every block of the heap is (arena.c asserts it). One byte more: a block of none is null.
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

static mp_obj_t new_steps(mp_mica_model_t *self, uint32_t n) {
    mp_obj_tuple_t *steps = MP_OBJ_TO_PTR(mp_obj_new_tuple(n, NULL));
    for (uint32_t i = 0; i < n; i++) {
        mp_mica_step_t *step = mp_obj_malloc(mp_mica_step_t, &mp_mica_step_type);
        step->model = self;
        step->index = (uint16_t)i;
        step->last = i + 1 == n;
        steps->items[i] = MP_OBJ_FROM_PTR(step);
    }
    return MP_OBJ_FROM_PTR(steps);
}

// A strip is one step: the tuple, made before the engine knew of strips, gets shorter. Allocates nothing.
static void join_strips(mp_mica_model_t *self) {
    mp_obj_tuple_t *steps = MP_OBJ_TO_PTR(self->steps);
    const uint32_t n = mica_model_info(self->engine)->n_steps;
    size_t used = 0;
    for (uint32_t i = 0; i < n; ++used) {
        mp_mica_step_t *step = MP_OBJ_TO_PTR(steps->items[used]);
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

#ifndef MICA_WITHOUT_STRIPS

// f(begin, end, buffer): null where it has filled the buffer, which it says with None or the number of bytes.
static void fill_by(mp_mica_model_t *self, const mica_tensor_t *t, mp_obj_t f, uint32_t begin, uint32_t end) {
    mp_mica_span_t span;
    mp_mica_check_arena(self, &span);
    mp_obj_t args[] = {
        MP_OBJ_NEW_SMALL_INT(begin), MP_OBJ_NEW_SMALL_INT(end), mp_mica_tensor_view(self, t, &span, true),
    };
    mp_obj_t filled = mp_call_function_n_kw(f, 3, 0, args);
    if (filled != mp_const_none && (mp_uint_t)mp_mica_get_int(filled) != t->bytes) {
        mp_raise_msg_varg(&mp_type_ValueError,
            MP_ERROR_TEXT("rows %u to %u of the input: the function has filled %d of %u bytes"),
            (unsigned)begin, (unsigned)end, (int)mp_mica_get_int(filled), (unsigned)t->bytes);
    }
    mp_mica_model_in_place(MP_OBJ_FROM_PTR(self)); // it may have closed the model, or moved the arena
}

// What the engine calls for rows [begin, end). What raises ends the run.
static void feed(void *context, uint32_t begin, uint32_t end, void *rows) {
    mp_mica_model_t *self = context;
    mica_tensor_t t;
    const uint32_t id = mica_input_id(self->engine, mica_fed_input(self->engine));
    mp_mica_tensor_of(self, id, &t);
    const uint32_t size = (uint32_t)mp_mica_element_size(mp_mica_typecode(t.dtype)), n = mp_mica_whole_bytes(&t) / size;
    mica_rows_made(self->engine, id, &t); // bytes by what was there at load, whatever the file says now
    t.data = rows;
    if (self->source == MP_OBJ_NULL) {
        mp_raise_msg(&mp_type_RuntimeError,
            MP_ERROR_TEXT("the input is fed: give the run a buffer with all rows, or a function"));
    }
    if (mp_obj_is_callable(self->source)) {
        fill_by(self, &t, self->source, begin, end);
    } else {
        mp_mica_values_store_part(&t, self->source, n, begin * (t.bytes / (end - begin)) / size);
    }
}
#endif

mp_obj_t mp_mica_model_load(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    enum { ARG_buf, ARG_arena, ARG_missing_kernels };
    static const mp_arg_t allowed[] = {
        { MP_QSTR_buf, MP_ARG_OBJ | MP_ARG_REQUIRED, { .u_rom_obj = MP_ROM_NONE } },
        { MP_QSTR_arena, MP_ARG_OBJ, { .u_rom_obj = MP_ROM_NONE } },
        { MP_QSTR_missing_kernels, MP_ARG_KW_ONLY | MP_ARG_BOOL, { .u_bool = false } },
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all(n_args, pos_args, kw_args, MP_ARRAY_SIZE(allowed), allowed, args);

    mp_mica_model_t *self = mp_obj_malloc_with_finaliser(mp_mica_model_t, &mp_mica_model_type);
    memset((uint8_t *)self + sizeof(mp_obj_base_t), 0, sizeof(*self) - sizeof(mp_obj_base_t));
    take_file(self, args[ARG_buf].u_obj);

    mica_info_t info;
    mica_error_t err;
    if (mica_check(self->file_data, self->file_bytes, &info, &err) != MICA_OK) {
        mp_mica_raise(&err, self->file_data, self->file_bytes);
    }
    self->file_bytes = info.file_bytes;
    mp_mica_take_arena(self, args[ARG_arena].u_obj, &info);
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
    if (mica_load_with(options, self->tables, info.model_bytes, self->file_data, self->file_bytes, span.data,
        span.bytes, self->state, info.state_bytes, &self->engine, &err) != MICA_OK) {
        self->engine = NULL;
        mp_mica_raise(&err, self->file_data, self->file_bytes);
    }
    #if defined(PICO_BUILD)
    mica_set_fetch(self->engine, &mp_mica_fetch);
    #endif
    join_strips(self);
    #ifndef MICA_WITHOUT_STRIPS
    mica_set_feed(self->engine, feed, self);
    #endif
    // The engine knows its addresses now. A buffer may grow or shrink in place, as long as it covers what is used.
    for (uint32_t i = 0; i < info.n_steps; i++) {
        if (!mica_step_has_kernel(self->engine, i)) {
            mp_mica_need_instead(self);
            break;
        }
    }
    return MP_OBJ_FROM_PTR(self);
}

#if MICA_SHARES_ARENA
// It leaves the static arena, also in mid-run. All that it points to may be gone already.
static mp_obj_t model_del(mp_obj_t self_in) {
    mp_mica_leave_arena(MP_OBJ_TO_PTR(self_in));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_del_obj, model_del);
#endif

// deinit(): drops the file, the tables and the arena. Views that somebody still holds keep their own block alive.
static mp_obj_t model_deinit(mp_obj_t self_in) {
    mp_mica_model_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->engine == NULL) {
        return mp_const_none;
    }
    mp_mica_span_t span;
    mp_mica_arena_span(self->arena, &span);
    if (span.control != NULL && span.control->busy == self->id && mp_mica_arena_owner(&span) == self->id) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the model is running"));
    }
    mp_mica_leave_arena(self);
    self->engine = NULL;
    self->tables = NULL;
    self->file = mp_const_none;
    self->file_head = NULL;
    self->file_data = NULL;
    self->file_bytes = 0;
    self->state = NULL;
    self->held = NULL;
    self->held_bytes = 0;
    self->instead = NULL;
    self->floats = NULL;
    self->source = MP_OBJ_NULL;
    self->arena = &mp_mica_arena_static; // anything that is not null: another thread may be inside a step
    self->steps = mp_const_empty_tuple;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_deinit_obj, model_deinit);

static mp_obj_t model_meta(mp_obj_t self_in, mp_obj_t key) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    return mp_mica_name_of(self, mica_metadata(self->engine, mp_obj_str_get_str(key)));
}
static MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_meta_obj, model_meta);

#ifndef MICA_WITHOUT_TOKENS
static mp_obj_t model_tokens(mp_obj_t self_in) {
    return mp_mica_tokens(mp_mica_model_of(self_in)->engine);
}
static MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_tokens_obj, model_tokens);

static mp_obj_t model_piece(mp_obj_t self_in, mp_obj_t token) {
    return mp_mica_piece(mp_mica_model_of(self_in)->engine, token);
}
static MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_piece_obj, model_piece);

static mp_obj_t model_encode(mp_obj_t self_in, mp_obj_t text) {
    return mp_mica_encode(mp_mica_model_of(self_in)->engine, text);
}
static MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_encode_obj, model_encode);
#endif

// ---- Attributes ----

static mp_obj_t model_info(const mp_mica_model_t *self) {
    const mica_info_t *info = mica_model_info(self->engine);
    mp_obj_t version[] = { MP_OBJ_NEW_SMALL_INT(info->version_major), MP_OBJ_NEW_SMALL_INT(info->version_minor) };
    static const qstr fields[] = {
        MP_QSTR_version, MP_QSTR_file_bytes, MP_QSTR_arena_bytes, MP_QSTR_scratch_min, MP_QSTR_scratch_want,
        MP_QSTR_state_bytes, MP_QSTR_table_bytes, MP_QSTR_n_tensors, MP_QSTR_n_steps, MP_QSTR_n_inputs,
        MP_QSTR_n_outputs, MP_QSTR_n_golden, MP_QSTR_crc32,
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
        mp_obj_new_int_from_uint(info->crc32),
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}

// Activations, scratch, state, tables, copies of constants, and the file unless it stays in flash.
static mp_obj_t model_ram(const mp_mica_model_t *self) {
    const mica_info_t *info = mica_model_info(self->engine);
    uint64_t bytes = (uint64_t)info->arena_bytes + mp_mica_scratch_of(info) + info->state_bytes + info->model_bytes
        + self->held_bytes;
    if (mp_mica_on_heap(self->file_data)) {
        bytes += info->file_bytes;
    }
    return mp_obj_new_int_from_ull(bytes);
}

static mp_obj_t io_ids(const mp_mica_model_t *self, uint32_t n, uint16_t (*id_of)(const mica_model_t *, uint32_t)) {
    mp_obj_tuple_t *ids = MP_OBJ_TO_PTR(mp_obj_new_tuple(n, NULL));
    for (uint32_t i = 0; i < n; i++) {
        ids->items[i] = MP_OBJ_NEW_SMALL_INT(id_of(self->engine, i));
    }
    return MP_OBJ_FROM_PTR(ids);
}

// Indices of the steps whose kernel this firmware lacks, whatever replace() did about them.
static mp_obj_t model_missing_kernels(const mp_mica_model_t *self) {
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint32_t i = 0; i < mica_model_info(self->engine)->n_steps; i++) {
        if (!mica_step_has_kernel(self->engine, i)) {
            mp_obj_list_append(list, MP_OBJ_NEW_SMALL_INT(i));
        }
    }
    return list;
}

// Null: none of these. Only these raise where the model is closed, so each asks by itself.
static mp_obj_t attribute(mp_obj_t self_in, qstr attr) {
    switch (attr) {
        case MP_QSTR_steps:
            return mp_mica_model_of(self_in)->steps;
        case MP_QSTR_strips:
            return mp_obj_new_bool(mica_has_strips(mp_mica_model_of(self_in)->engine));
        case MP_QSTR_fed: { // place of the fed input, None
            const uint32_t i = mica_fed_input(mp_mica_model_of(self_in)->engine);
            return i == UINT32_MAX ? mp_const_none : MP_OBJ_NEW_SMALL_INT(i);
        }
        case MP_QSTR_source: // of the fed input, None
            return mp_mica_model_of(self_in)->source == MP_OBJ_NULL ? mp_const_none
                : mp_mica_model_of(self_in)->source;
        case MP_QSTR_copied:
            return mp_obj_new_bool(mp_mica_model_of(self_in)->copied);
        case MP_QSTR_arena:
            return MP_OBJ_FROM_PTR(mp_mica_model_of(self_in)->arena);
        case MP_QSTR_state: {
            // All state tensors, to keep a copy and put it back: writable.
            mp_mica_model_t *self = mp_mica_model_of(self_in);
            return self->state == NULL ? mp_const_none
                : mp_mica_new_view(self->state, self->state, mica_model_info(self->engine)->state_bytes, 'B', true);
        }
        case MP_QSTR_held: // bytes of constants that were copied; None where the whole file is in the heap
            return mp_mica_on_heap(mp_mica_model_of(self_in)->file_data) && mp_mica_model_of(self_in)->held == NULL
                ? mp_const_none : mp_obj_new_int_from_uint(mp_mica_model_of(self_in)->held_bytes);
        case MP_QSTR_ram:
            return model_ram(mp_mica_model_of(self_in));
        case MP_QSTR_info:
            return model_info(mp_mica_model_of(self_in));
        case MP_QSTR_missing_kernels:
            return model_missing_kernels(mp_mica_model_of(self_in));
        case MP_QSTR_inputs: {
            mp_mica_model_t *self = mp_mica_model_of(self_in);
            return io_ids(self, mica_model_info(self->engine)->n_inputs, mica_input_id);
        }
        case MP_QSTR_outputs: {
            mp_mica_model_t *self = mp_mica_model_of(self_in);
            return io_ids(self, mica_model_info(self->engine)->n_outputs, mica_output_id);
        }
        default:
            return MP_OBJ_NULL;
    }
}

static void model_attr(mp_obj_t self_in, qstr attr, mp_obj_t *dest) {
    if (dest[0] == MP_OBJ_NULL) { // attributes are read only
        dest[0] = attribute(self_in, attr);
        dest[1] = dest[0] == MP_OBJ_NULL ? MP_OBJ_SENTINEL : MP_OBJ_NULL; // the methods below
    }
}

static void model_print(const mp_print_t *print, mp_obj_t self_in, mp_print_kind_t kind) {
    (void)kind;
    mp_mica_model_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->engine == NULL) {
        mp_print_str(print, "<Model, closed>");
    } else {
        mp_printf(print, "<Model of %u steps>", (unsigned)mica_model_info(self->engine)->n_steps);
    }
}

static const mp_rom_map_elem_t model_locals_table[] = {
    { MP_ROM_QSTR(MP_QSTR_begin), MP_ROM_PTR(&mp_mica_model_begin_obj) },
    { MP_ROM_QSTR(MP_QSTR_end), MP_ROM_PTR(&mp_mica_model_end_obj) },
    { MP_ROM_QSTR(MP_QSTR_finish), MP_ROM_PTR(&mp_mica_model_finish_obj) },
    { MP_ROM_QSTR(MP_QSTR_input), MP_ROM_PTR(&mp_mica_model_input_obj) },
    { MP_ROM_QSTR(MP_QSTR_output), MP_ROM_PTR(&mp_mica_model_output_obj) },
    { MP_ROM_QSTR(MP_QSTR_write), MP_ROM_PTR(&mp_mica_model_write_obj) },
    { MP_ROM_QSTR(MP_QSTR_read), MP_ROM_PTR(&mp_mica_model_read_obj) },
    { MP_ROM_QSTR(MP_QSTR_read_into), MP_ROM_PTR(&mp_mica_model_read_into_obj) },
    { MP_ROM_QSTR(MP_QSTR_tensor), MP_ROM_PTR(&mp_mica_model_tensor_obj) },
    { MP_ROM_QSTR(MP_QSTR_tensor_data), MP_ROM_PTR(&mp_mica_model_tensor_data_obj) },
    { MP_ROM_QSTR(MP_QSTR_tensor_view), MP_ROM_PTR(&mp_mica_model_tensor_view_obj) },
    { MP_ROM_QSTR(MP_QSTR_load), MP_ROM_PTR(&mp_mica_model_load_tensor_obj) },
    { MP_ROM_QSTR(MP_QSTR_store), MP_ROM_PTR(&mp_mica_model_store_tensor_obj) },
    { MP_ROM_QSTR(MP_QSTR_step_info), MP_ROM_PTR(&mp_mica_model_step_info_obj) },
    { MP_ROM_QSTR(MP_QSTR_step_params), MP_ROM_PTR(&mp_mica_model_step_params_obj) },
    { MP_ROM_QSTR(MP_QSTR_step_constant), MP_ROM_PTR(&mp_mica_model_step_constant_obj) },
    { MP_ROM_QSTR(MP_QSTR_replace), MP_ROM_PTR(&mp_mica_model_replace_obj) },
    { MP_ROM_QSTR(MP_QSTR_meta), MP_ROM_PTR(&mp_mica_model_meta_obj) },
    #ifndef MICA_WITHOUT_TOKENS
    { MP_ROM_QSTR(MP_QSTR_tokens), MP_ROM_PTR(&mp_mica_model_tokens_obj) },
    { MP_ROM_QSTR(MP_QSTR_piece), MP_ROM_PTR(&mp_mica_model_piece_obj) },
    { MP_ROM_QSTR(MP_QSTR_encode), MP_ROM_PTR(&mp_mica_model_encode_obj) },
    #endif
    { MP_ROM_QSTR(MP_QSTR_in_strip), MP_ROM_PTR(&mp_mica_model_in_strip_obj) },
    #ifndef MICA_WITHOUT_STRIPS
    { MP_ROM_QSTR(MP_QSTR_call), MP_ROM_PTR(&mp_mica_model_call_obj) },
    { MP_ROM_QSTR(MP_QSTR_ran), MP_ROM_PTR(&mp_mica_model_ran_obj) },
    { MP_ROM_QSTR(MP_QSTR_rows), MP_ROM_PTR(&mp_mica_model_rows_obj) },
    #endif
    { MP_ROM_QSTR(MP_QSTR_golden), MP_ROM_PTR(&mp_mica_model_golden_obj) },
    { MP_ROM_QSTR(MP_QSTR_golden_crcs), MP_ROM_PTR(&mp_mica_model_golden_crcs_obj) },
    { MP_ROM_QSTR(MP_QSTR_check), MP_ROM_PTR(&mp_mica_model_check_obj) },
    { MP_ROM_QSTR(MP_QSTR_rearm), MP_ROM_PTR(&mp_mica_model_rearm_obj) },
    { MP_ROM_QSTR(MP_QSTR_hold), MP_ROM_PTR(&mp_mica_model_hold_obj) },
    { MP_ROM_QSTR(MP_QSTR_reset_state), MP_ROM_PTR(&mp_mica_model_reset_state_obj) },
    { MP_ROM_QSTR(MP_QSTR_put_state), MP_ROM_PTR(&mp_mica_model_put_state_obj) },
    { MP_ROM_QSTR(MP_QSTR_deinit), MP_ROM_PTR(&mp_mica_model_deinit_obj) },
    #if MICA_SHARES_ARENA
    { MP_ROM_QSTR(MP_QSTR___del__), MP_ROM_PTR(&mp_mica_model_del_obj) },
    #endif
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

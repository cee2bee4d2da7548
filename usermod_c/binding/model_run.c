// Running a model: the arena, its steps as callables, strips call by call, and steps that somebody else computes.

#include <string.h>

#include "model.h"

void mp_mica_need_instead(mp_mica_model_t *self) {
    if (self->instead == NULL) {
        self->instead = m_new0(mp_obj_t, mica_model_info(self->engine)->n_steps);
    }
}

// begin(): the arena is this model's until end(). A second run, from a hook, a timer or a thread, is refused.
static mp_obj_t model_begin(mp_obj_t self_in) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mp_mica_span_t span;
    mp_mica_check_arena(self, &span);
    if (!mp_mica_arena_take(&span, self->id)) {
        mp_raise_msg(&mp_type_RuntimeError,
            MP_ERROR_TEXT("arena is busy: a run in it has not ended; its model's stop() gives it up"));
    }
    if (!mp_mica_arena_intact(self->arena)) {
        mp_mica_arena_release(&span, self->id);
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("somebody wrote past the arena's end: load the model again"));
    }
    mp_mica_borrow_arena(self);
    self->finished = mica_model_info(self->engine)->n_steps == 0;
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_begin_obj, model_begin);

// end(): does nothing unless this model is the one that is running, and never raises, so it fits in a `finally`.
static mp_obj_t model_end(mp_obj_t self_in) {
    mp_mica_model_t *self = MP_OBJ_TO_PTR(self_in);
    mp_mica_span_t span;
    mp_mica_give_back(self);
    mp_mica_arena_span(self->arena, &span);
    mp_mica_arena_release(&span, self->id);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_end_obj, model_end);

// finish(): the last step's work has been done by somebody else, so the outputs are there.
static mp_obj_t model_finish(mp_obj_t self_in) {
    mp_mica_model_t *self = mp_mica_model_in_place(self_in);
    self->finished = true;
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_finish_obj, model_finish);

// True for a step that runs outside of the engine. It counts as one row, since a function in its place does all of it.
static bool runs_elsewhere(const mp_mica_model_t *self, uint32_t i) {
    return self->instead != NULL && (self->instead[i] != MP_OBJ_NULL || !mica_step_has_kernel(self->engine, i));
}

static uint32_t rows_of(const mp_mica_model_t *self, uint32_t i) {
    return runs_elsewhere(self, i) ? 1 : mica_step_rows(self->engine, i);
}

static void run_rows(const mp_mica_model_t *self, uint32_t i, uint32_t begin, uint32_t end) {
    if (!runs_elsewhere(self, i)) {
        mp_mica_run_rows(self->engine, i, begin, end);
    } else if (self->instead[i] != MP_OBJ_NULL) {
        mp_call_function_0(self->instead[i]);
    } else {
        mp_raise_msg_varg(&mp_type_RuntimeError, MP_ERROR_TEXT("step %u: this firmware lacks its kernel"), (unsigned)i);
    }
}

#ifdef MICA_WITHOUT_STRIPS
#define run_strip(self, i, begin, end) ((void)0)
#else
// The same of a strip. A function in the place of one of its steps does all rows of a call at once.
static void run_strip(const mp_mica_model_t *self, uint32_t i, uint32_t begin, uint32_t end) {
    while (begin < end) {
        mica_call_t call;
        if (!mica_strip_next(self->engine, i, begin, &call)) {
            mp_raise_msg_varg(&mp_type_ValueError,
                MP_ERROR_TEXT("row %u of the strip: its rows run from 0 on, one behind the other"), (unsigned)begin);
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
#endif

// Runs rows [begin, end) of a step; true when they were the last.
static bool step_rows(const mp_mica_model_t *model, uint32_t i, bool strip, const mp_obj_t *range) {
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
    mp_mica_step_t *self = MP_OBJ_TO_PTR(self_in);
    mp_mica_model_t *model = mp_mica_model_of(MP_OBJ_FROM_PTR(self->model));
    if (model->arena->source != MP_OBJ_NULL) {
        mp_mica_span_t span;
        mp_mica_check_arena(model, &span);
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
    mp_mica_step_t *self = MP_OBJ_TO_PTR(self_in);
    mp_printf(print, "<step %u>", (unsigned)self->index);
}

// rows: into how many pieces step(begin, end) can cut the layer. first: its index. strip: of how many layers from there
// on it is a strip, 0 for a layer alone.
static void step_attr(mp_obj_t self_in, qstr attr, mp_obj_t *dest) {
    const mp_mica_step_t *self = MP_OBJ_TO_PTR(self_in);
    if (dest[0] != MP_OBJ_NULL) {
        return;
    }
    if (attr == MP_QSTR_rows) {
        const mp_mica_model_t *model = mp_mica_model_of(MP_OBJ_FROM_PTR(self->model));
        dest[0] = mp_obj_new_int_from_uint(self->strip ? mica_step_rows(model->engine, self->index)
            : rows_of(model, self->index));
    } else if (attr == MP_QSTR_first) {
        dest[0] = MP_OBJ_NEW_SMALL_INT(self->index);
    } else if (attr == MP_QSTR_strip) {
        const mp_mica_model_t *model = mp_mica_model_of(MP_OBJ_FROM_PTR(self->model));
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

// ---- Strips, call by call ----

static uint32_t step_index(const mp_mica_model_t *self, mp_obj_t index) {
    return mp_mica_index_of(index, mica_model_info(self->engine)->n_steps, "step");
}

#ifndef MICA_WITHOUT_STRIPS
// call(i, at): in strip i, which begins with step i, the call that row `at` belongs to: its step << 16, plus how many
// rows of it are left; 0 at the end. Its inputs and outputs are in place then. 0 begins again.
static mp_obj_t model_call(mp_obj_t self_in, mp_obj_t index, mp_obj_t at_in) {
    mp_mica_model_t *self = mp_mica_model_in_place(self_in);
    const uint32_t i = step_index(self, index);
    const mp_int_t at = mp_mica_get_int(at_in);
    mica_call_t call;
    if (at < 0 || !mica_strip_next(self->engine, i, (uint32_t)at, &call)) {
        return MP_OBJ_NEW_SMALL_INT(0);
    }
    return mp_obj_new_int_from_uint(call.step << 16 | (call.rows - call.row));
}
MP_DEFINE_CONST_FUN_OBJ_3(mp_mica_model_call_obj, model_call);
#endif

// in_strip(i): whether step i is part of a strip.
static mp_obj_t model_in_strip(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    const uint32_t i = step_index(self, index);
    return mp_obj_new_bool(mica_in_strip(self->engine, i));
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_in_strip_obj, model_in_strip);

#ifndef MICA_WITHOUT_STRIPS
// ran(n): somebody else has made n rows of the call that call() has named.
static mp_obj_t model_ran(mp_obj_t self_in, mp_obj_t rows) {
    mp_mica_model_t *self = mp_mica_model_in_place(self_in);
    if (mica_has_strips(self->engine)) {
        mica_strip_ran(self->engine, (uint32_t)mp_mica_get_int(rows));
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_ran_obj, model_ran);

// rows(id): (first, made, have): rows [first, have) of a tensor are in memory, [made, have) by the last call.
static mp_obj_t model_rows(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    uint32_t v[3];
    mica_tensor_rows(self->engine, mp_mica_index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), &v[0],
        &v[1], &v[2]);
    mp_obj_t items[] = { mp_obj_new_int_from_uint(v[0]), mp_obj_new_int_from_uint(v[1]),
        mp_obj_new_int_from_uint(v[2]) };
    return mp_obj_new_tuple(3, items);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_rows_obj, model_rows);
#endif

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

static mp_obj_t model_step_info(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mica_step_info_t s;
    uint32_t i = step_index(self, index);
    mica_step_info(self->engine, i, &s);
    bool instead = self->instead != NULL && self->instead[i] != MP_OBJ_NULL;
    static const qstr fields[] = {
        MP_QSTR_name, MP_QSTR_kernel, MP_QSTR_macs, MP_QSTR_inputs, MP_QSTR_outputs, MP_QSTR_scratch_min,
        MP_QSTR_scratch_want, MP_QSTR_flags, MP_QSTR_layout, MP_QSTR_runs_in,
    };
    mp_obj_t items[] = {
        mp_mica_name_of(self, s.name),
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
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_step_info_obj, model_step_info);

// ---- Steps that do not run in the engine: what a function in their place has to know ----

// step_params(i): all parameters of a step, in the order of its record.
static mp_obj_t model_step_params(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    uint32_t i = step_index(self, index);
    mp_obj_t items[MICA_MAX_PARAMS];
    for (uint32_t k = 0; k < MICA_MAX_PARAMS; k++) {
        items[k] = mp_obj_new_int(mica_step_param(self->engine, i, k));
    }
    return mp_obj_new_tuple(MICA_MAX_PARAMS, items);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_step_params_obj, model_step_params);

// step_constant(i, k, typecode): constant k of step i where it lies; empty where there is none.
static mp_obj_t model_step_constant(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    mp_mica_model_t *self = mp_mica_model_of(args[0]);
    uint32_t bytes, i = step_index(self, args[1]), k = mp_mica_index_of(args[2], MICA_MAX_BLOBS, "constant");
    size_t len;
    const char *typecode = mp_obj_str_get_data(args[3], &len);
    if (len != 1 || *typecode == 0 || strchr("bBhHiI", *typecode) == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("typecode: one of b B h H i I is expected"));
    }
    const void *data = mica_step_constant(self->engine, i, k, &bytes);
    if (data == NULL || bytes % mp_mica_element_size(*typecode) != 0) {
        mp_raise_msg_varg(&mp_type_ValueError,
            MP_ERROR_TEXT("step %u: constant %u does not lie in the file; pack the model again"),
            (unsigned)i, (unsigned)k);
    }
    return mp_mica_new_view(self->file_head, (void *)(uintptr_t)data, bytes, *typecode, false); // read only
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_model_step_constant_obj, 4, 4, model_step_constant);

// replace(i, f): from now on step i calls f(); with None it is the engine's again.
static mp_obj_t model_replace(mp_obj_t self_in, mp_obj_t index, mp_obj_t f) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    uint32_t i = step_index(self, index);
    if (f != mp_const_none && !mp_obj_is_callable(f)) {
        mp_raise_TypeError(MP_ERROR_TEXT("a function is expected, or None"));
    }
    mp_mica_need_instead(self);
    self->instead[i] = f == mp_const_none ? MP_OBJ_NULL : f;
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_3(mp_mica_model_replace_obj, model_replace);

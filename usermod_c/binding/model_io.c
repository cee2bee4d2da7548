// A model's tensors and state: written, read, looked at, and compared with those of the self-test.

#include <string.h>

#include "model.h"

static void tensor_at(const mp_mica_model_t *self, mp_obj_t index, mica_tensor_t *t) {
    mp_mica_tensor_of(self, mp_mica_index_of(index, mica_model_info(self->engine)->n_tensors, "tensor"), t);
}

static uint32_t input_id(const mp_mica_model_t *self, mp_obj_t index) {
    return mica_input_id(self->engine, mp_mica_index_of(index, mica_model_info(self->engine)->n_inputs, "input"));
}

static uint32_t output_id(const mp_mica_model_t *self, mp_obj_t index) {
    return mica_output_id(self->engine, mp_mica_index_of(index, mica_model_info(self->engine)->n_outputs, "output"));
}

static mp_obj_t model_input(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mp_mica_span_t span;
    mp_mica_check_arena(self, &span);
    mica_tensor_t t;
    const uint32_t id = input_id(self, index);
    mp_mica_tensor_of(self, id, &t);
    if (t.space == MICA_SPACE_ROWS) {
        mp_raise_msg_varg(&mp_type_RuntimeError,
            MP_ERROR_TEXT("input %d is fed, it exists as a few rows only: give predict() a "
            "buffer, or a function f(begin, end, buffer)"), (int)mp_mica_get_int(index));
    }
    return mp_mica_tensor_view(self, &t, &span, true);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_input_obj, model_input);

static mp_mica_model_t *model_with_outputs(mp_obj_t self_in, mp_mica_span_t *span) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mp_mica_check_arena(self, span);
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
    mp_mica_model_t *self = model_with_outputs(self_in, &span);
    mica_tensor_t t;
    mp_mica_tensor_of(self, output_id(self, index), &t);
    return mp_mica_tensor_view(self, &t, &span, true);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_output_obj, model_output);

// write(i, values): values quantised into input i; of the fed input its buffer or function, which is kept for all runs
// to come. read(i): output i as a list of floats.
static mp_obj_t model_write(mp_obj_t self_in, mp_obj_t index, mp_obj_t values) {
    mp_mica_model_t *self = mp_mica_model_to_write(self_in);
    mica_tensor_t t;
    mp_mica_tensor_of(self, input_id(self, index), &t);
    if (t.space == MICA_SPACE_DATA) {
        mp_raise_TypeError(MP_ERROR_TEXT("this input is a constant"));
    }
    if ((uint32_t)mp_mica_get_int(index) == mica_fed_input(self->engine)) {
        if (!mp_obj_is_callable(values)) {
            mp_mica_values_check(&t, values, mp_mica_whole_bytes(&t)
                / (uint32_t)mp_mica_element_size(mp_mica_typecode(t.dtype)));
        }
        self->source = values;
        return mp_const_none;
    }
    const bool missing = t.dtype == MICA_DTYPE_FLOAT32 && mica_metadata(self->engine, "missing") != NULL;
    const uint32_t far = mp_mica_values_store(&t, values, missing ? MP_MICA_NAN : 0);
    if (far != 0 && !self->told) {
        self->told = true;
        mp_printf(&mp_plat_print, "mica: %u values of an input are far outside of all that the model can be given, and "
            "are cut off; is it scaled as for mica pack --calib?\n", (unsigned)far);
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_3(mp_mica_model_write_obj, model_write);

static mp_obj_t model_read(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_span_t span;
    mp_mica_model_t *self = model_with_outputs(self_in, &span);
    mica_tensor_t t;
    mp_mica_tensor_of(self, output_id(self, index), &t);
    return mp_mica_values_load(&t, &self->floats);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_read_obj, model_read);

// read_into(i, buffer): the same into a buffer of floats, or the tensor's own bytes into one of those.
static mp_obj_t model_read_into(mp_obj_t self_in, mp_obj_t index, mp_obj_t buffer) {
    mp_mica_span_t span;
    mp_mica_model_t *self = model_with_outputs(self_in, &span);
    mica_tensor_t t;
    mp_mica_tensor_of(self, output_id(self, index), &t);
    mp_mica_values_load_into(&t, buffer);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_3(mp_mica_model_read_into_obj, model_read_into);

static mp_obj_t model_tensor(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mica_tensor_t t;
    tensor_at(self, index, &t);
    mp_obj_t dims[MICA_MAX_RANK];
    for (size_t i = 0; i < t.rank; i++) {
        dims[i] = mp_obj_new_int_from_uint(t.dims[i]);
    }
    const char typecode = mp_mica_typecode(t.dtype);
    static const qstr fields[] = {
        MP_QSTR_name, MP_QSTR_dtype, MP_QSTR_shape, MP_QSTR_scale, MP_QSTR_zero_point, MP_QSTR_nbytes,
    };
    mp_obj_t items[] = {
        mp_mica_name_of(self, t.name),
        mp_obj_new_str(&typecode, 1),
        mp_obj_new_tuple(t.rank, dims),
        mp_obj_new_float((mp_float_t)t.scale),
        mp_obj_new_int(t.zero_point),
        mp_obj_new_int_from_uint(mp_mica_whole_bytes(&t)),
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_tensor_obj, model_tensor);

// tensor_data(id): a copy of whatever the tensor's bytes hold now; in mid-run that is a layer's output.
static mp_obj_t model_tensor_data(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_in_place(self_in);
    mica_tensor_t t;
    tensor_at(self, index, &t);
    return mp_obj_new_bytes(t.data, t.bytes);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_tensor_data_obj, model_tensor_data);

// mp_mica_tensor_view(id, writable=False): the bytes themselves, without a copy. A constant is never writable.
static mp_obj_t model_tensor_view(size_t n_args, const mp_obj_t *args) {
    bool writable = n_args > 2 && mp_obj_is_true(args[2]); // first of all: a __bool__ could close the model
    mp_mica_model_t *self = mp_mica_model_of(args[0]);
    mp_mica_span_t span;
    mp_mica_check_arena(self, &span);
    mica_tensor_t t;
    tensor_at(self, args[1], &t);
    return mp_mica_tensor_view(self, &t, &span, writable);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_model_tensor_view_obj, 2, 3, model_tensor_view);

// load(id), store(id, values): a tensor as a list of numbers; numbers quantised into it, or bytes copied.
static mp_obj_t model_load_tensor(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_in_place(self_in);
    mica_tensor_t t;
    tensor_at(self, index, &t);
    return mp_mica_values_load(&t, NULL);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_load_tensor_obj, model_load_tensor);

static mp_obj_t model_store_tensor(mp_obj_t self_in, mp_obj_t index, mp_obj_t values) {
    mp_mica_model_t *self = mp_mica_model_to_write(self_in);
    mica_tensor_t t;
    tensor_at(self, index, &t);
    if (t.space == MICA_SPACE_DATA) {
        mp_raise_TypeError(MP_ERROR_TEXT("this tensor is a constant"));
    }
    mp_mica_values_store(&t, values, MP_MICA_NAN | MP_MICA_INFINITY);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_3(mp_mica_model_store_tensor_obj, model_store_tensor);

// ---- Self-test ----

// golden(i): vector i of the file: all inputs, then all outputs, each padded to 4 bytes; read only.
static mp_obj_t model_golden(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    uint32_t i = mp_mica_index_of(index, mica_golden_count(self->engine), "golden vector");
    void *vector = (void *)(uintptr_t)mica_golden(self->engine, i); // read only
    return mp_mica_new_view(self->file_head, vector, mica_golden_bytes(self->engine), 'B', false);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_golden_obj, model_golden);

// golden_crcs(i): CRC-32 of each step's output in vector i, a view of 32-bit numbers; None where the file has none.
static mp_obj_t model_golden_crcs(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    uint32_t i = mp_mica_index_of(index, mica_golden_count(self->engine), "golden vector");
    const uint8_t *crcs = mica_golden_crcs(self->engine, i);
    return crcs == NULL ? mp_const_none
        : mp_mica_new_view(self->file_head, (void *)(uintptr_t)crcs, 4 * (size_t)mica_model_info(self->engine)->n_steps,
        'I', false);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_golden_crcs_obj, model_golden_crcs);

// check([n]): compares the file's checksum with that at load, n bytes further at each call. Returns the bytes that are
// left, 0 when all of it was right, and begins again; raises ValueError where the file has changed. Allocates nothing.
// check(0) begins again at once: part of a check that was interrupted says nothing about what has changed since.
static mp_obj_t model_check(size_t n_args, const mp_obj_t *args) {
    mp_mica_model_t *self = mp_mica_model_of(args[0]);
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
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_model_check_obj, 1, 2, model_check);

// ---- Constants in RAM

// Copies the constants of step i to `to`, if that is not null, with their places; returns their bytes there. 0: none.
static size_t copy_constants(const mp_mica_model_t *self, uint32_t i, uint8_t *to, const void *places[MICA_MAX_BLOBS]) {
    size_t total = 0;
    for (uint32_t k = 0; k < MICA_MAX_BLOBS; k++) {
        uint32_t bytes;
        const void *data = mica_step_constant(self->engine, i, k, &bytes);
        if (data == NULL) {
            return 0;
        }
        if (to != NULL) {
            places[k] = to + total;
            memcpy(to + total, data, bytes);
        }
        total += (bytes + MICA_ALIGN - 1u) & ~(size_t)(MICA_ALIGN - 1u);
    }
    return total;
}

// hold(i): step i reads a copy of its constants in RAM from now on. Returns the bytes of the copy, 0 where there is
// nothing to copy. Raises MemoryError, and then nothing has changed.
static mp_obj_t model_hold(mp_obj_t self_in, mp_obj_t index) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    const uint32_t n = mica_model_info(self->engine)->n_steps, i = mp_mica_index_of(index, n, "step");
    const size_t total = copy_constants(self, i, NULL, NULL);
    if (total == 0 || !mica_step_has_kernel(self->engine, i) || (self->held != NULL && self->held[i] != NULL)) {
        return MP_OBJ_NEW_SMALL_INT(0);
    }
    if (self->held == NULL) {
        self->held = m_new0(uint8_t *, n);
    }
    uint8_t *block = m_malloc(MICA_ALIGN + total); // aligned, as every block of the heap is
    const void *places[MICA_MAX_BLOBS];
    mica_error_t err;
    if (self->engine == NULL || copy_constants(self, i, NULL, NULL) != total) {
        return MP_OBJ_NEW_SMALL_INT(0); // while memory was sought, the model was closed or its file changed
    }
    copy_constants(self, i, block + MICA_ALIGN, places);
    if (mica_move_constants(self->engine, i, places, &err) != MICA_OK) {
        mp_mica_raise(&err, self->file_data, self->file_bytes);
    }
    *(size_t *)block = total;
    self->held[i] = block;
    self->held_bytes += MICA_ALIGN + total;
    return mp_obj_new_int_from_uint(MICA_ALIGN + total);
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_hold_obj, model_hold);

// rearm(): the guard words round the arena are written again, as at load, and the copies of constants are made again.
static mp_obj_t model_rearm(mp_obj_t self_in) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mp_mica_arena_arm(self->arena);
    for (uint32_t i = 0; self->held != NULL && i < mica_model_info(self->engine)->n_steps; i++) {
        const void *places[MICA_MAX_BLOBS];
        uint8_t *block = self->held[i];
        if (block != NULL && copy_constants(self, i, NULL, NULL) == *(size_t *)block) { // else the file has changed
            copy_constants(self, i, block + MICA_ALIGN, places);
        }
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_rearm_obj, model_rearm);

// reset_state(): state tensors back to their zero points, as after load.
static mp_obj_t model_reset_state(mp_obj_t self_in) {
    mica_reset_state(mp_mica_model_of(self_in)->engine);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_1(mp_mica_model_reset_state_obj, model_reset_state);

// put_state(kept): the state is again what bytes(state) had. Fits in a `finally`: it allocates nothing and never
// raises, and with None, bytes of another size or a closed model it does nothing.
static mp_obj_t model_put_state(mp_obj_t self_in, mp_obj_t kept) {
    mp_mica_model_t *self = MP_OBJ_TO_PTR(self_in);
    mp_buffer_info_t buf;
    if (self->state != NULL && kept != mp_const_none && mp_get_buffer(kept, &buf, MP_BUFFER_READ)
        && buf.len == mica_model_info(self->engine)->state_bytes) {
        memcpy(self->state, buf.buf, buf.len);
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(mp_mica_model_put_state_obj, model_put_state);

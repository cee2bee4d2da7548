// A kernel on any buffers, for firmware/mica/kernels.py: what a step of a file says comes as arguments, and goes
// through the same checks, so that no call can read or write outside the buffers it was given.

#include <string.h>

#include "py/binary.h"

#include "mp_mica.h"
#include "mica_format.h"

#ifndef MICA_WITHOUT_RAW
// The bytes of a buffer whose elements have the size of `typecode`; raises where it is no such one.
static void *get_raw(mp_obj_t obj, const char *name, mp_uint_t flags, char typecode, uint32_t *bytes) {
    const size_t size = mp_binary_get_size('@', typecode, NULL);
    mp_buffer_info_t buf;
    if (mp_obj_is_str(obj) || !mp_get_buffer(obj, &buf, flags)) {
        mp_raise_msg_varg(&mp_type_TypeError, (flags & MP_BUFFER_WRITE)
            ? MP_ERROR_TEXT("%s: a writable buffer is expected") : MP_ERROR_TEXT("%s: a buffer is expected"), name);
    }
    bool plain = buf.typecode == 'B' || buf.typecode == BYTEARRAY_TYPECODE;
    if (buf.typecode > 0 && strchr("bhHiIlL", buf.typecode) != NULL) {
        plain |= mp_binary_get_size('@', (char)buf.typecode, NULL) == size;
    }
    if (!plain) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("%s: an array('%c') is expected"), name, typecode);
    }
    if ((uintptr_t)buf.buf % size != 0 || buf.len > MICA_MAX_BYTES) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: not aligned to %u bytes, or too long"), name,
            (unsigned)size);
    }
    *bytes = (uint32_t)buf.len;
    return buf.buf;
}

static int32_t ranged(mp_obj_t obj, int32_t min, int32_t max, const char *name) {
    mp_int_t value = mp_mica_get_int(obj);
    if (value < min || value > max) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: not in %d to %d"), name, (int)min, (int)max);
    }
    return (int32_t)value;
}

// A tuple or list of `least` to `most`.
static size_t get_items(mp_obj_t obj, size_t least, size_t most, const char *name, mp_obj_t **items) {
    size_t n = most + 1;
    if (mp_obj_is_type(obj, &mp_type_tuple) || mp_obj_is_type(obj, &mp_type_list)) {
        mp_obj_get_array(obj, &n, items);
    }
    if (n < least || n > most) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("%s: a tuple of %u to %u is expected"), name,
            (unsigned)least, (unsigned)most);
    }
    return n;
}

// (buffer, shape, zero point, scale)
static void get_operand(mp_obj_t obj, const char *name, mp_uint_t flags, mica_tensor_t *t) {
    mp_obj_t *items, *dims;
    get_items(obj, 4, 4, name, &items);
    t->data = get_raw(items[0], name, flags, 'b', &t->bytes);
    t->dtype = MICA_DTYPE_INT8;
    t->rank = (uint8_t)get_items(items[1], 0, MICA_MAX_RANK, name, &dims);
    for (size_t i = 0; i < MICA_MAX_RANK; i++) {
        t->dims[i] = i < t->rank ? (uint32_t)ranged(dims[i], 1, MICA_MAX_DIM, name) : 1;
    }
    t->zero_point = ranged(items[2], -128, 127, name);
    t->scale = (float)mp_obj_get_float(items[3]);
}

static uint32_t get_kernel(mp_obj_t obj) {
    const char *wanted = mp_obj_str_get_str(obj);
    uint32_t id = 0;
    for (; id <= MICA_MAX_KERNEL_ID; id++) {
        const char *name = mica_kernel_name(id);
        if (name != NULL && strcmp(name, wanted) == 0) {
            break;
        }
    }
    return id;
}

// run_kernel(kernel, output, inputs, constants, typecodes of the constants, parameters): None, or (why not, number of
// the constant or of MICA_MAX_BLOBS and the parameter that is wrong, -1 where it is none of them).
static mp_obj_t run_kernel(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    mica_single_t call = { .kernel = get_kernel(args[0]) };
    mp_obj_t *items;
    get_operand(args[1], "out", MP_BUFFER_WRITE, &call.y);
    call.n_inputs = (uint32_t)get_items(args[2], 0, MICA_MAX_INPUTS, "inputs", &items);
    for (uint32_t i = 0; i < call.n_inputs; i++) {
        get_operand(items[i], "input", MP_BUFFER_READ, &call.x[i]);
    }
    const char *typecodes = mp_obj_str_get_str(args[4]);
    const size_t n_blobs = get_items(args[3], 0, MIN(MICA_MAX_BLOBS, strlen(typecodes)), "constants", &items);
    for (size_t i = 0; i < n_blobs; i++) {
        call.blobs[i] = get_raw(items[i], "constant", MP_BUFFER_READ, typecodes[i], &call.blob_bytes[i]);
    }
    const size_t n_params = get_items(args[5], 0, MICA_MAX_PARAMS, "parameters", &items);
    for (size_t i = 0; i < n_params; i++) {
        call.params[i] = ranged(items[i], INT32_MIN, INT32_MAX, "parameter");
    }
    mica_error_t err;
    if (mica_run_single(&call, &err) == MICA_OK) {
        return mp_const_none;
    }
    mp_int_t place = -1;
    if (err.byte >= MICA_STEP_BLOBS) {
        place = err.byte < MICA_STEP_PARAMS ? (mp_int_t)(err.byte - MICA_STEP_BLOBS) / 8
            : MICA_MAX_BLOBS + (mp_int_t)(err.byte - MICA_STEP_PARAMS) / 4;
    }
    err.byte = 0; // of a record that nobody has seen
    char text[160];
    mica_error_text(&err, NULL, 0, text, sizeof(text));
    char *remedy = strchr(text, ';'); // for files
    mp_obj_t why[] = { mp_obj_new_str(text, remedy == NULL ? strlen(text) : (size_t)(remedy - text)),
        MP_OBJ_NEW_SMALL_INT(place) };
    return mp_obj_new_tuple(2, why);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_run_kernel_obj, 6, 6, run_kernel);
#endif

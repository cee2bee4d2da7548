// mica: the C engine's models as a CPython extension.
//
// Plain on purpose: buffers and integers in, bytes out, errors as _engine.Error with the engine's own text. The names and
// the numpy arrays that people use are in __init__.py beside this file. Of CPython it needs the stable ABI of 3.11 only (setup.py
// says so to Python.h), so that one build serves every later version.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "mica_kernels.h"
#include "picture.h"

// What the kernels of this computer make use of; a file names what a board has.
#define SCRATCH (128u << 10)

static PyObject *engine_error;
PyObject *mica_engine_isa(PyObject *module, PyObject *args);    // _kernels.c
PyObject *mica_engine_kernel_name(PyObject *module, PyObject *args);
PyObject *mica_engine_scratch_min(PyObject *module, PyObject *args);

static void *raise_error(const mica_error_t *err, const void *base, size_t len) {
    char text[300];
    PyErr_SetString(engine_error, mica_error_text(err, base, len, text, sizeof(text)));
    return NULL;
}

// ---- Model

typedef struct {
    PyObject_HEAD
    void *block;  // one allocation: file, arena, state and the model itself, each aligned
    uint8_t *file;
    size_t file_bytes;
    mica_model_t *model;
    PyObject *frame;  // bytes of the fed input, null where none has been written
} model_t;

// A text of the file, which may hold any bytes; None where there is none.
static PyObject *text(const char *s) {
    return s == NULL ? Py_NewRef(Py_None) : PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace");
}

static size_t aligned(size_t n) {
    return (n + MICA_ALIGN - 1) / MICA_ALIGN * MICA_ALIGN;
}

// Rows of the fed input, out of what was written.
static void feed(void *context, uint32_t begin, uint32_t end, void *rows) {
    const model_t *self = context;
    mica_tensor_t t;
    mica_tensor(self->model, mica_input_id(self->model, mica_fed_input(self->model)), &t);
    size_t row = 1;  // int8, or no step could read it
    for (uint32_t i = 2; i < t.rank; ++i) {
        row *= t.dims[i];
    }
    if (self->frame != NULL) {
        memcpy(rows, PyBytes_AsString(self->frame) + begin * row, (end - begin) * row);
    } else {
        memset(rows, (uint8_t)t.zero_point, (end - begin) * row);
    }
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "data", "scratch_bytes", NULL };
    Py_buffer data;
    Py_ssize_t scratch_bytes = -1;  // less than the file's scratch_want, for tests; -1: all of it, and SCRATCH at least
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|n", names, &data, &scratch_bytes)) {
        return NULL;
    }
    model_t *self = NULL;
    mica_info_t info;
    mica_error_t err;
    // mica_check() wants an aligned file, and a bytes object is not.
    size_t file_bytes = aligned((size_t)data.len);
    uint8_t *file = PyMem_Malloc(file_bytes + MICA_ALIGN);
    if (file == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    uint8_t *base = (uint8_t *)aligned((uintptr_t)file);
    memcpy(base, data.buf, (size_t)data.len);
    if (mica_check(base, (size_t)data.len, &info, &err) != MICA_OK) {
        raise_error(&err, base, (size_t)data.len);
        goto done;
    }
    size_t scratch = scratch_bytes >= 0 ? (size_t)scratch_bytes : info.scratch_want > SCRATCH ? info.scratch_want : SCRATCH;
    size_t arena_bytes = aligned(info.arena_bytes + scratch), state_bytes = aligned(info.state_bytes);
    if ((self = (model_t *)PyType_GenericAlloc(type, 0)) == NULL) {
        goto done;
    }
    self->block = PyMem_Calloc(1, file_bytes + arena_bytes + state_bytes + info.model_bytes + MICA_ALIGN);
    if (self->block == NULL) {
        PyErr_NoMemory();
        Py_CLEAR(self);
        goto done;
    }
    self->file = (uint8_t *)aligned((uintptr_t)self->block);
    self->file_bytes = (size_t)data.len;
    memcpy(self->file, base, (size_t)data.len);
    uint8_t *arena = self->file + file_bytes, *state = arena + arena_bytes, *mem = state + state_bytes;
    if (mica_load_with(MICA_LOAD_CHECKED, mem, info.model_bytes, self->file, self->file_bytes, arena, info.arena_bytes + scratch,
        info.state_bytes ? state : NULL, info.state_bytes, &self->model, &err) != MICA_OK) {
        raise_error(&err, self->file, self->file_bytes);
        Py_CLEAR(self);
        goto done;
    }
    mica_set_feed(self->model, feed, self);
done:
    PyMem_Free(file);
    PyBuffer_Release(&data);
    return (PyObject *)self;
}

static void model_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    PyMem_Free(((model_t *)o)->block);
    Py_CLEAR(((model_t *)o)->frame);
    PyObject_Free(o);
    Py_DECREF(type); // an object holds its type, where that was made at run time
}

static const mica_model_t *model_of(PyObject *o) {
    return ((model_t *)o)->model;
}

static PyObject *model_info(PyObject *self, PyObject *unused) {
    (void)unused;
    const mica_info_t *i = mica_model_info(model_of(self));
    return Py_BuildValue("{sIsIsIsIsIsIsIsIsIsIsI}", "file_bytes", i->file_bytes, "version_major", (unsigned)i->version_major,
        "version_minor", (unsigned)i->version_minor, "arena_bytes", i->arena_bytes, "scratch_min", i->scratch_min,
        "scratch_want", i->scratch_want, "state_bytes", i->state_bytes, "n_tensors", i->n_tensors, "n_steps", i->n_steps,
        "n_inputs", i->n_inputs, "n_outputs", i->n_outputs);
}

static bool step_exists(PyObject *self, unsigned i) {
    uint32_t steps = mica_model_info(model_of(self))->n_steps;
    if (i >= steps) {
        PyErr_Format(engine_error, "step %u: the model has %u", i, steps);
    }
    return i < steps;
}

static PyObject *model_run_step(PyObject *self, PyObject *args) {
    unsigned i;
    if (!PyArg_ParseTuple(args, "I", &i) || !step_exists(self, i)) {
        return NULL;
    }
    mica_run_step(model_of(self), i);
    Py_RETURN_NONE;
}

static PyObject *model_step_rows(PyObject *self, PyObject *args) {
    unsigned i;
    return PyArg_ParseTuple(args, "I", &i) && step_exists(self, i) ? PyLong_FromUnsignedLong(mica_step_rows(model_of(self), i)) : NULL;
}

static PyObject *model_run_rows(PyObject *self, PyObject *args) {
    unsigned i, begin, end;
    if (!PyArg_ParseTuple(args, "III", &i, &begin, &end) || !step_exists(self, i)) {
        return NULL;
    }
    uint32_t rows = mica_step_rows(model_of(self), i);
    if (begin >= end || end > rows) {
        return PyErr_Format(engine_error, "step %u: rows [%u, %u) of %u", i, begin, end, rows);
    }
    mica_run_rows(model_of(self), i, begin, end);
    Py_RETURN_NONE;
}

static PyObject *model_strip_steps(PyObject *self, PyObject *args) {
    unsigned i;
    return PyArg_ParseTuple(args, "I", &i) && step_exists(self, i) ? PyLong_FromUnsignedLong(mica_strip_steps(model_of(self), i)) : NULL;
}

// (step, rows): the call in which row `at` of strip i lies, and how many rows of it are still to be made; None at the end.
static PyObject *model_strip_next(PyObject *self, PyObject *args) {
    unsigned i, at;
    if (!PyArg_ParseTuple(args, "II", &i, &at) || !step_exists(self, i)) {
        return NULL;
    }
    mica_call_t call;
    if (at >= mica_step_rows(model_of(self), i) || !mica_strip_next(model_of(self), i, at, &call)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("II", call.step, call.rows - call.row);
}

static PyObject *model_run(PyObject *self, PyObject *unused) {
    (void)unused;
    for (uint32_t i = 0; i < mica_model_info(model_of(self))->n_steps; ++i) {
        mica_run_step(model_of(self), i);
        if (PyErr_CheckSignals() != 0) { // a large model takes seconds, and Ctrl-C should not
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *model_reset_state(PyObject *self, PyObject *unused) {
    (void)unused;
    mica_reset_state(model_of(self));
    Py_RETURN_NONE;
}

static bool find_tensor(PyObject *self, unsigned id, mica_tensor_t *t) {
    if (mica_tensor(model_of(self), id, t)) {
        return true;
    }
    PyErr_Format(engine_error, "tensor %u: the model has %u", id, mica_model_info(model_of(self))->n_tensors);
    return false;
}

// (name, dtype, space, dims, scale, zero_point)
static PyObject *model_tensor_info(PyObject *self, PyObject *args) {
    unsigned id;
    mica_tensor_t t;
    if (!PyArg_ParseTuple(args, "I", &id) || !find_tensor(self, id, &t)) {
        return NULL;
    }
    PyObject *dims = PyTuple_New(t.rank);
    for (uint32_t i = 0; dims != NULL && i < t.rank; ++i) {
        PyObject *n = PyLong_FromUnsignedLong(t.dims[i]);
        if (n == NULL || PyTuple_SetItem(dims, i, n) < 0) {
            Py_CLEAR(dims);
        }
    }
    if (dims == NULL) {
        return NULL;
    }
    return Py_BuildValue("NiiNdi", text(t.name), t.dtype, t.space, dims, (double)t.scale, t.zero_point);
}

static PyObject *model_read(PyObject *self, PyObject *args) {
    unsigned id;
    mica_tensor_t t;
    return PyArg_ParseTuple(args, "I", &id) && find_tensor(self, id, &t) ? PyBytes_FromStringAndSize(t.data, t.bytes) : NULL;
}

// The rows of a tensor that the last call has made.
static PyObject *model_rows_made(PyObject *self, PyObject *args) {
    unsigned id;
    mica_tensor_t t;
    if (!PyArg_ParseTuple(args, "I", &id) || !find_tensor(self, id, &t)) {
        return NULL;
    }
    mica_rows_made(model_of(self), id, &t);
    return PyBytes_FromStringAndSize(t.data, t.bytes);
}

// Place among the inputs of the fed one, or None.
static PyObject *model_fed(PyObject *self, PyObject *unused) {
    (void)unused;
    uint32_t i = mica_fed_input(model_of(self));
    return i == UINT32_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(i);
}

// Keeps all bytes of the fed input for the runs to come.
static PyObject *model_write_frame(PyObject *self, PyObject *frame) {
    mica_tensor_t t;
    size_t bytes = 1;
    uint32_t i = mica_fed_input(model_of(self));
    if (i == UINT32_MAX || !find_tensor(self, mica_input_id(model_of(self), i), &t)) {
        return PyErr_Format(engine_error, "no input of the model is fed");
    }
    for (uint32_t k = 0; k < t.rank; ++k) {
        bytes *= t.dims[k];
    }
    if (!PyBytes_Check(frame) || (size_t)PyBytes_Size(frame) != bytes) {
        return PyErr_Format(engine_error, "input %u is fed: %zu bytes are expected", i, bytes);
    }
    PyObject *old = ((model_t *)self)->frame;
    ((model_t *)self)->frame = Py_NewRef(frame);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *model_write(PyObject *self, PyObject *args) {
    unsigned id;
    Py_buffer data;
    mica_tensor_t t;
    if (!PyArg_ParseTuple(args, "Iy*", &id, &data)) {
        return NULL;
    }
    PyObject *result = NULL;
    if (find_tensor(self, id, &t)) {
        if (t.space == MICA_SPACE_DATA || (size_t)data.len != t.bytes) {
            PyErr_Format(engine_error, "tensor %u takes %u bytes, not %zd, and must not be a constant", id, t.bytes, data.len);
        } else {
            memcpy(t.data, data.buf, t.bytes);
            result = Py_NewRef(Py_None);
        }
    }
    PyBuffer_Release(&data);
    return result;
}

// (name, kernel, flags, macs, scratch_min, scratch_want, inputs, outputs)
static PyObject *model_step_info(PyObject *self, PyObject *args) {
    unsigned i;
    if (!PyArg_ParseTuple(args, "I", &i) || !step_exists(self, i)) {
        return NULL;
    }
    mica_step_info_t s;
    mica_step_info(model_of(self), i, &s);
    return Py_BuildValue("NsIIII(HHHH)(HHHH)", text(s.name), mica_kernel_name(s.kernel), (unsigned)s.flags, s.macs, s.scratch_min,
        s.scratch_want, s.inputs[0], s.inputs[1], s.inputs[2], s.inputs[3], s.outputs[0], s.outputs[1], s.outputs[2],
        s.outputs[3]);
}

static PyObject *id_or_none(uint16_t id) {
    return id == MICA_NO_TENSOR ? Py_NewRef(Py_None) : PyLong_FromLong(id);
}

static PyObject *model_input_id(PyObject *self, PyObject *args) {
    unsigned i;
    return PyArg_ParseTuple(args, "I", &i) ? id_or_none(mica_input_id(model_of(self), i)) : NULL;
}

static PyObject *model_output_id(PyObject *self, PyObject *args) {
    unsigned i;
    return PyArg_ParseTuple(args, "I", &i) ? id_or_none(mica_output_id(model_of(self), i)) : NULL;
}

static PyObject *model_metadata(PyObject *self, PyObject *args) {
    const char *key;
    return PyArg_ParseTuple(args, "s", &key) ? text(mica_metadata(model_of(self), key)) : NULL;
}

// Golden vector i as bytes, or None beyond the last.
static PyObject *model_golden(PyObject *self, PyObject *args) {
    unsigned i;
    if (!PyArg_ParseTuple(args, "I", &i)) {
        return NULL;
    }
    const mica_model_t *m = model_of(self);
    const uint8_t *bytes = mica_golden(m, i);
    if (bytes == NULL) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)mica_golden_bytes(m));
}

// (tokens, None), or (None, the byte that no piece spells); the text with its space in front.
static PyObject *model_encode(PyObject *self, PyObject *args) {
    Py_buffer text;
    if (!PyArg_ParseTuple(args, "y*", &text)) {
        return NULL;
    }
    PyObject *result = NULL, *list = NULL;
    void *work = PyMem_Malloc(mica_encode_bytes((size_t)text.len));
    if (work == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    uint32_t failed, n = (uint32_t)text.len, count = mica_encode(model_of(self), text.buf, n, work, &failed);
    if (failed < n) {
        result = Py_BuildValue("OI", Py_None, failed);
        goto done;
    }
    if ((list = PyList_New(count)) == NULL) {
        goto done;
    }
    for (uint32_t i = 0; i < count; ++i) {
        PyList_SetItem(list, i, PyLong_FromLong(((uint16_t *)work)[i]));
    }
    result = Py_BuildValue("NO", list, Py_None);
done:
    PyMem_Free(work);
    PyBuffer_Release(&text);
    return result;
}

static PyMethodDef model_methods[] = {
    { "info", model_info, METH_NOARGS, NULL },
    { "run", model_run, METH_NOARGS, NULL },
    { "run_step", model_run_step, METH_VARARGS, NULL },
    { "step_rows", model_step_rows, METH_VARARGS, NULL },
    { "run_rows", model_run_rows, METH_VARARGS, NULL },
    { "strip_steps", model_strip_steps, METH_VARARGS, NULL },
    { "strip_next", model_strip_next, METH_VARARGS, NULL },
    { "rows_made", model_rows_made, METH_VARARGS, NULL },
    { "reset_state", model_reset_state, METH_NOARGS, NULL },
    { "tensor_info", model_tensor_info, METH_VARARGS, NULL },
    { "read", model_read, METH_VARARGS, NULL },
    { "write", model_write, METH_VARARGS, NULL },
    { "fed", model_fed, METH_NOARGS, NULL },
    { "write_frame", model_write_frame, METH_O, NULL },
    { "step_info", model_step_info, METH_VARARGS, NULL },
    { "input_id", model_input_id, METH_VARARGS, NULL },
    { "output_id", model_output_id, METH_VARARGS, NULL },
    { "metadata", model_metadata, METH_VARARGS, NULL },
    { "golden", model_golden, METH_VARARGS, NULL },
    { "encode", model_encode, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot model_slots[] = {
    { Py_tp_new, model_new },
    { Py_tp_dealloc, model_dealloc },
    { Py_tp_methods, model_methods },
    { 0, NULL },
};

static PyType_Spec model_spec = {
    .name = "mica.engine._engine.Model",
    .basicsize = sizeof(model_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = model_slots,
};

// ---- module

// (token, next state); see mica_sample().
static PyObject *engine_sample(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer y;
    float scale;
    unsigned temperature, top_k, state;
    if (!PyArg_ParseTuple(args, "y*fIII", &y, &scale, &temperature, &top_k, &state)) {
        return NULL;
    }
    PyObject *result = NULL;
    if (y.len < 1 || y.len > MICA_MAX_TOKENS || temperature > 10000 || top_k < 1 || top_k > y.len || state == 0) {
        PyErr_SetString(engine_error, "sample: an argument out of range");
    } else {
        uint32_t token = mica_sample(y.buf, (uint32_t)y.len, scale, temperature, top_k, &state);
        result = Py_BuildValue("II", token, state);
    }
    PyBuffer_Release(&y);
    return result;
}

// Rows [begin, end) of a picture; numbers: the fields of mica_picture_t as uint16.
static PyObject *engine_see(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer numbers, frame, table;
    unsigned begin, end;
    if (!PyArg_ParseTuple(args, "y*y*y*II", &numbers, &frame, &table, &begin, &end)) {
        return NULL;
    }
    PyObject *result = NULL;
    mica_picture_t p;
    memcpy(&p, numbers.buf, numbers.len == sizeof(p) ? sizeof(p) : 0);
    if (numbers.len != sizeof(p) || !mica_picture_check(&p) || (size_t)frame.len != mica_picture_bytes(&p)) {
        PyErr_SetString(engine_error, "see: numbers that are no picture, or a frame of another size");
    } else {
        const unsigned channels = p.flags & MICA_PICTURE_COLOUR ? 3 : 1;
        if ((size_t)table.len != 256u * channels || begin > end || end > p.out_h
            || (p.flags & MICA_PICTURE_PLANES && (begin != 0 || end != p.out_h))) {
            PyErr_SetString(engine_error, "see: a table or rows out of range");
        } else if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(end - begin) * p.out_w * (int)channels)) != NULL) {
            mica_picture_rows(&p, frame.buf, table.buf, begin, end, (int8_t *)PyBytes_AsString(result));
        }
    }
    PyBuffer_Release(&table);
    PyBuffer_Release(&frame);
    PyBuffer_Release(&numbers);
    return result;
}

static PyMethodDef module_methods[] = {
    { "isa", mica_engine_isa, METH_VARARGS, NULL },
    { "kernel_name", mica_engine_kernel_name, METH_VARARGS, NULL },
    { "sample", engine_sample, METH_VARARGS, NULL },
    { "scratch_min", mica_engine_scratch_min, METH_VARARGS, NULL },
    { "see", engine_see, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_engine",
    .m_doc = "The C engine of mica.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__engine(void) {
    PyObject *module = PyModule_Create(&module_def), *model_type = PyType_FromSpec(&model_spec);
    engine_error = PyErr_NewException("mica.engine._engine.Error", NULL, NULL);
    if (module == NULL || engine_error == NULL || PyModule_AddObjectRef(module, "Error", engine_error) < 0
        || PyModule_AddObjectRef(module, "Model", model_type) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(model_type);
    return module;
}

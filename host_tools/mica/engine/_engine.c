// mica: the C engine as a CPython extension: models, and the raw kernels on buffers.
//
// Plain on purpose: buffers and integers in, bytes out, errors as _engine.Error with the engine's own text. The names and
// the numpy arrays that people use are in __init__.py and kernels.py beside this file.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "mica_select.h"

static PyObject *engine_error;

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
} model_t;

static size_t aligned(size_t n) {
    return (n + MICA_ALIGN - 1) / MICA_ALIGN * MICA_ALIGN;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "data", "scratch_bytes", NULL };
    Py_buffer data;
    Py_ssize_t scratch_bytes = -1;  // less than the file's scratch_want, for tests; -1: all of it
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
    size_t scratch = scratch_bytes < 0 ? info.scratch_want : (size_t)scratch_bytes;
    size_t arena_bytes = aligned(info.arena_bytes + scratch), state_bytes = aligned(info.state_bytes);
    if ((self = (model_t *)type->tp_alloc(type, 0)) == NULL) {
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
    if (mica_load(mem, info.model_bytes, self->file, self->file_bytes, arena, info.arena_bytes + scratch,
        info.state_bytes ? state : NULL, info.state_bytes, &self->model, &err) != MICA_OK) {
        raise_error(&err, self->file, self->file_bytes);
        Py_CLEAR(self);
    }
done:
    PyMem_Free(file);
    PyBuffer_Release(&data);
    return (PyObject *)self;
}

static void model_dealloc(PyObject *o) {
    PyMem_Free(((model_t *)o)->block);
    Py_TYPE(o)->tp_free(o);
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

static PyObject *model_run_step(PyObject *self, PyObject *args) {
    unsigned i;
    if (!PyArg_ParseTuple(args, "I", &i)) {
        return NULL;
    }
    if (i >= mica_model_info(model_of(self))->n_steps) {
        return PyErr_Format(engine_error, "step %u: the model has %u", i, mica_model_info(model_of(self))->n_steps);
    }
    mica_run_step(model_of(self), i);
    Py_RETURN_NONE;
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
        PyTuple_SET_ITEM(dims, i, PyLong_FromUnsignedLong(t.dims[i]));
    }
    return Py_BuildValue("siiNdi", t.name, t.dtype, t.space, dims, (double)t.scale, t.zero_point);
}

static PyObject *model_read(PyObject *self, PyObject *args) {
    unsigned id;
    mica_tensor_t t;
    if (!PyArg_ParseTuple(args, "I", &id) || !find_tensor(self, id, &t)) {
        return NULL;
    }
    return PyBytes_FromStringAndSize(t.data, t.bytes);
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
    if (!PyArg_ParseTuple(args, "I", &i)) {
        return NULL;
    }
    if (i >= mica_model_info(model_of(self))->n_steps) {
        return PyErr_Format(engine_error, "step %u: the model has %u", i, mica_model_info(model_of(self))->n_steps);
    }
    mica_step_info_t s;
    mica_step_info(model_of(self), i, &s);
    return Py_BuildValue("ssIIII(HHHH)(HHHH)", s.name, mica_kernel_name(s.kernel), (unsigned)s.flags, s.macs, s.scratch_min,
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
    return PyArg_ParseTuple(args, "s", &key) ? Py_BuildValue("z", mica_metadata(model_of(self), key)) : NULL;
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
    Py_ssize_t one = 0;
    for (uint32_t role = 0; role < 2; ++role) {
        uint16_t id;
        for (uint32_t k = 0; (id = role ? mica_output_id(m, k) : mica_input_id(m, k)) != MICA_NO_TENSOR; ++k) {
            mica_tensor_t t;
            if (!find_tensor(self, id, &t)) {
                return NULL;
            }
            one += (t.bytes + 3) & ~(Py_ssize_t)3;
        }
    }
    return PyBytes_FromStringAndSize((const char *)bytes, one);
}

static PyMethodDef model_methods[] = {
    { "info", model_info, METH_NOARGS, NULL },
    { "run", model_run, METH_NOARGS, NULL },
    { "run_step", model_run_step, METH_VARARGS, NULL },
    { "reset_state", model_reset_state, METH_NOARGS, NULL },
    { "tensor_info", model_tensor_info, METH_VARARGS, NULL },
    { "read", model_read, METH_VARARGS, NULL },
    { "write", model_write, METH_VARARGS, NULL },
    { "step_info", model_step_info, METH_VARARGS, NULL },
    { "input_id", model_input_id, METH_VARARGS, NULL },
    { "output_id", model_output_id, METH_VARARGS, NULL },
    { "metadata", model_metadata, METH_VARARGS, NULL },
    { "golden", model_golden, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyTypeObject model_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "mica.engine._engine.Model",
    .tp_basicsize = sizeof(model_t),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = model_new,
    .tp_dealloc = model_dealloc,
    .tp_methods = model_methods,
};

// ---- raw kernels. Each takes its buffers, its numbers as a tuple in the order of the structure, and the rows to compute
// (row_end -1: all of them). Lengths and alignments are checked here, numbers by the kernel's own checks.

#define MOST_BUFFERS 10

typedef struct {
    const char *kernel;
    Py_buffer buffer[MOST_BUFFERS];
    int n;
    long value[40];
    int n_values;
    int next;  // value that TAKE() gives
    Py_ssize_t row_begin, row_end;
    bool failed;
} call_t;

// args: the buffers, of which number `y` is written; a sequence of n_values integers; row_begin; row_end.
static bool call_begin(call_t *c, const char *kernel, PyObject *args, int buffers, int y, int n_values) {
    memset(c, 0, sizeof(*c));
    c->kernel = kernel;
    if (PyTuple_GET_SIZE(args) != buffers + 3) {
        PyErr_Format(PyExc_TypeError, "%s takes %d buffers, a tuple, row_begin and row_end", kernel, buffers);
        return false;
    }
    for (; c->n < buffers; ++c->n) {
        int flags = c->n == y ? PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS : PyBUF_C_CONTIGUOUS;
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(args, c->n), &c->buffer[c->n], flags) < 0) {
            return false;
        }
    }
    PyObject *numbers = PySequence_Fast(PyTuple_GET_ITEM(args, buffers), "the numbers are no sequence");
    if (numbers == NULL) {
        return false;
    }
    c->n_values = (int)PySequence_Fast_GET_SIZE(numbers);
    if (c->n_values != n_values) {
        PyErr_Format(PyExc_TypeError, "%s takes %d numbers, not %d", kernel, n_values, c->n_values);
    }
    for (int i = 0; i < c->n_values && !PyErr_Occurred(); ++i) {
        c->value[i] = PyLong_AsLong(PySequence_Fast_GET_ITEM(numbers, i));
    }
    Py_DECREF(numbers);
    c->row_begin = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(PyTuple_GET_ITEM(args, buffers + 1));
    c->row_end = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(PyTuple_GET_ITEM(args, buffers + 2));
    return !PyErr_Occurred();
}

static PyObject *call_end(call_t *c) {
    for (int i = 0; i < c->n; ++i) {
        PyBuffer_Release(&c->buffer[i]);
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static long take(call_t *c, long low, long high) {
    long v = c->value[c->next++];
    if ((v < low || v > high) && !PyErr_Occurred()) {
        PyErr_Format(engine_error, "%s: number %d is %ld; wanted %ld to %ld", c->kernel, c->next - 1, v, low, high);
    }
    return v;
}

#define TAKE(type, low, high) ((type)take(c, low, high))
#define TAKE_S8() TAKE(int8_t, -128, 127)
#define TAKE_U16() TAKE(uint16_t, 0, 65535)
#define TAKE_S32() TAKE(int32_t, INT32_MIN, INT32_MAX)

// what: where the check that gave `status` has left its reason.
static bool good(call_t *c, mica_status_t status, const char *const *what) {
    if (status != MICA_OK && !PyErr_Occurred()) {
        PyErr_Format(engine_error, "%s: %s", c->kernel, *what);
    }
    return !PyErr_Occurred();
}

// Buffer i has to hold that many bytes, and to begin on a multiple of align.
static bool holds(call_t *c, int i, size_t bytes, size_t align) {
    if ((size_t)c->buffer[i].len != bytes || (uintptr_t)c->buffer[i].buf % align) {
        PyErr_Format(engine_error, "%s: buffer %d has %zd bytes; wanted %zu, aligned to %zu", c->kernel, i, c->buffer[i].len,
            bytes, align);
    }
    return !PyErr_Occurred();
}

static bool rows_fit(call_t *c, uint32_t rows) {
    if (c->row_end < 0) {
        c->row_end = rows;
    }
    if (c->row_begin < 0 || c->row_begin > c->row_end || c->row_end > (Py_ssize_t)rows) {
        PyErr_Format(engine_error, "%s: rows [%zd, %zd) of %u", c->kernel, c->row_begin, c->row_end, rows);
    }
    return !PyErr_Occurred();
}

#define ROWS (uint32_t)c->row_begin, (uint32_t)c->row_end, NULL, 0

static void take_window(call_t *c, mica_window_t *w) {
    uint16_t *field[] = {
        &w->in_h, &w->in_w, &w->in_c, &w->out_h, &w->out_w, &w->out_c, &w->kernel_h, &w->kernel_w, &w->stride_h, &w->stride_w,
        &w->dilation_h, &w->dilation_w, &w->pad_top, &w->pad_left,
    };
    for (size_t i = 0; i < sizeof(field) / sizeof(*field); ++i) {
        *field[i] = TAKE_U16();
    }
}

// Buffers 2 to 5 are weights, bias, mult and shift.
static void take_channels(call_t *c, mica_channels_t *ch) {
    ch->weights = c->buffer[2].buf;
    ch->bias = c->buffer[3].buf;
    ch->mult = c->buffer[4].buf;
    ch->shift = c->buffer[5].buf;
    ch->y_zero = TAKE_S8();
    ch->act_min = TAKE_S8();
    ch->act_max = TAKE_S8();
    ch->fast = TAKE(uint8_t, 0, 1);
}

// conv2d_s8, depthwise_conv2d_s8 and fully_connected_s8 end alike.
#define RUN_CHANNELS(NAME, SELECTED) \
    (good(c, mica_##NAME##_check(&p, &what), &what) && holds(c, 0, mica_##NAME##_x_bytes(&p), 1) \
     && holds(c, 1, mica_##NAME##_y_bytes(&p), 1) && holds(c, 2, mica_##NAME##_weights_bytes(&p), 1) \
     && holds(c, 3, (size_t)mica_##NAME##_channels(&p) * 4, 4) && holds(c, 4, (size_t)mica_##NAME##_channels(&p) * 4, 4) \
     && holds(c, 5, mica_##NAME##_channels(&p), 1) && good(c, mica_##NAME##_check_constants(&p, &what), &what) \
     && rows_fit(c, mica_##NAME##_rows(&p)) ? SELECTED(&p, ROWS) : (void)0)

static PyObject *raw_conv2d(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_conv2d_s8_t p = { 0 };
    if (call_begin(c, "conv2d_s8", args, 6, 1, 20)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        take_window(c, &p.win);
        p.groups = TAKE_U16();
        p.x_zero = TAKE_S8();
        take_channels(c, &p.ch);
        RUN_CHANNELS(conv2d_s8, MICA_CONV2D_S8);
    }
    return call_end(c);
}

static PyObject *raw_depthwise_conv2d(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_depthwise_conv2d_s8_t p = { 0 };
    if (call_begin(c, "depthwise_conv2d_s8", args, 6, 1, 19)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        take_window(c, &p.win);
        p.x_zero = TAKE_S8();
        take_channels(c, &p.ch);
        RUN_CHANNELS(depthwise_conv2d_s8, MICA_DEPTHWISE_CONV2D_S8);
    }
    return call_end(c);
}

static PyObject *raw_conv_transpose2d(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_conv_transpose2d_s8_t p = { 0 };
    if (call_begin(c, "conv_transpose2d_s8", args, 6, 1, 20)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        take_window(c, &p.win);
        p.groups = TAKE_U16();
        p.x_zero = TAKE_S8();
        take_channels(c, &p.ch);
        RUN_CHANNELS(conv_transpose2d_s8, MICA_CONV_TRANSPOSE2D_S8);
    }
    return call_end(c);
}

static PyObject *raw_fully_connected(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_fully_connected_s8_t p = { 0 };
    if (call_begin(c, "fully_connected_s8", args, 6, 1, 7)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        p.in_k = TAKE_U16();
        p.out_n = TAKE_U16();
        take_channels(c, &p.ch);
        RUN_CHANNELS(fully_connected_s8, MICA_FULLY_CONNECTED_S8);
    }
    return call_end(c);
}

static PyObject *raw_max_pool2d(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_max_pool2d_s8_t p = { 0 };
    if (call_begin(c, "max_pool2d_s8", args, 2, 1, 16)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        take_window(c, &p.win);
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (good(c, mica_max_pool2d_s8_check(&p, &what), &what) && holds(c, 0, mica_max_pool2d_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_max_pool2d_s8_y_bytes(&p), 1) && rows_fit(c, mica_max_pool2d_s8_rows(&p))) {
            MICA_MAX_POOL2D_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_average_pool2d(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_average_pool2d_s8_t p = { 0 };
    if (call_begin(c, "average_pool2d_s8", args, 4, 1, 21)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.mult = c->buffer[2].buf;
        p.shift = c->buffer[3].buf;
        p.entries = (uint32_t)c->buffer[3].len;
        take_window(c, &p.win);
        p.pad_bottom = TAKE_U16();
        p.pad_right = TAKE_U16();
        p.count_include_pad = TAKE(uint8_t, 0, 1);
        p.x_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (good(c, mica_average_pool2d_s8_check(&p, &what), &what) && holds(c, 0, mica_average_pool2d_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_average_pool2d_s8_y_bytes(&p), 1) && holds(c, 2, (size_t)p.entries * 4, 4)
            && good(c, mica_average_pool2d_s8_check_constants(&p, &what), &what)
            && rows_fit(c, mica_average_pool2d_s8_rows(&p))) {
            MICA_AVERAGE_POOL2D_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

// The shapes stand behind the seven numbers, each as its rank and six dimensions.
static uint32_t take_dims(call_t *c, uint32_t *dims) {
    uint32_t rank = TAKE(uint32_t, 0, MICA_MAX_RANK);
    for (int i = 0; i < MICA_MAX_RANK; ++i) {
        dims[i] = TAKE(uint32_t, 0, MICA_MAX_DIM);
    }
    return rank;
}

static PyObject *raw_add(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_add_s8_t p = { 0 };
    if (call_begin(c, "add_s8", args, 3, 2, 7 + 3 * (1 + MICA_MAX_RANK))) {
        p.a = c->buffer[0].buf;
        p.b = c->buffer[1].buf;
        p.y = c->buffer[2].buf;
        p.mult_a = TAKE_S32();
        p.mult_b = TAKE_S32();
        p.offset = TAKE_S32();
        p.shift = TAKE(uint8_t, 0, 255);
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        uint32_t a[MICA_MAX_RANK], b[MICA_MAX_RANK], y[MICA_MAX_RANK];
        uint32_t a_rank = take_dims(c, a), b_rank = take_dims(c, b), y_rank = take_dims(c, y);
        if (!PyErr_Occurred() && good(c, mica_broadcast_shapes(&p.shape, a, a_rank, b, b_rank, y, y_rank, &what), &what)
            && good(c, mica_add_s8_check(&p, &what), &what) && holds(c, 0, mica_broadcast_a_size(&p.shape), 1)
            && holds(c, 1, mica_broadcast_b_size(&p.shape), 1) && holds(c, 2, mica_broadcast_y_size(&p.shape), 1)
            && rows_fit(c, mica_add_s8_rows(&p))) {
            MICA_ADD_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_softmax(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_softmax_s8_t p = { 0 };
    if (call_begin(c, "softmax_s8", args, 3, 1, 4)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.table = c->buffer[2].buf;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        p.axis = TAKE_U16();
        p.wide = TAKE(uint8_t, 0, 1);
        p.y_zero = TAKE(int8_t, -128, 127);
        if (good(c, mica_softmax_s8_check(&p, &what), &what) && holds(c, 0, mica_softmax_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_softmax_s8_x_bytes(&p), 1) && holds(c, 2, p.wide ? 2048 : 1024, 4)
            && good(c, mica_softmax_s8_check_constants(&p, &what), &what) && rows_fit(c, mica_softmax_s8_rows(&p))) {
            MICA_SOFTMAX_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_lut(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_lut_s8_t p = { 0 };
    if (call_begin(c, "lut_s8", args, 3, 1, 1)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.table = c->buffer[2].buf;
        p.n = TAKE(uint32_t, 0, INT32_MAX);
        if (good(c, mica_lut_s8_check(&p, &what), &what) && holds(c, 0, p.n, 1) && holds(c, 1, p.n, 1) && holds(c, 2, 256, 1)
            && rows_fit(c, mica_lut_s8_rows(&p))) {
            MICA_LUT_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_transpose(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_transpose_s8_t p = { 0 };
    if (call_begin(c, "transpose_s8", args, 2, 1, 1 + 2 * MICA_MAX_RANK)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.rank = TAKE(uint8_t, 0, 255);
        for (int i = 0; i < MICA_MAX_RANK; ++i) {
            p.y_dims[i] = TAKE_U16();
        }
        for (int i = 0; i < MICA_MAX_RANK; ++i) {
            p.perm[i] = TAKE(uint8_t, 0, 255);
        }
        if (good(c, mica_transpose_s8_check(&p, &what), &what) && holds(c, 0, mica_transpose_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_transpose_s8_x_bytes(&p), 1) && rows_fit(c, mica_transpose_s8_rows(&p))) {
            MICA_TRANSPOSE_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_move(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_move_s8_t p = { 0 };
    if (call_begin(c, "move_s8", args, 3, 1, 2)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.x_n = (uint32_t)c->buffer[0].len;
        p.begin = TAKE_S32();
        p.rank = TAKE(uint8_t, 0, 255);
        const int32_t *map = c->buffer[2].buf;
        if (!PyErr_Occurred() && holds(c, 2, (size_t)(p.rank > MICA_MAX_RANK ? 0 : p.rank) * 8, 4)) {
            for (uint32_t i = 0; i < p.rank && i < MICA_MAX_RANK; ++i) {
                p.dim[i].n = (uint32_t)map[2 * i];
                p.dim[i].stride = map[2 * i + 1];
            }
            if (good(c, mica_move_s8_check(&p, &what), &what) && holds(c, 1, mica_move_s8_y_bytes(&p), 1)
                && rows_fit(c, mica_move_s8_rows(&p))) {
                MICA_MOVE_S8(&p, ROWS);
            }
        }
    }
    return call_end(c);
}

// Buffers: y, then the inputs. Numbers: rows, and what each input gives to a row.
static PyObject *raw_concat(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_concat_s8_t p = { 0 };
    int n = (int)PyTuple_GET_SIZE(args) - 4;
    if (n < 1 || n > MICA_MAX_INPUTS) {
        return PyErr_Format(PyExc_TypeError, "concat_s8 takes 1 to 4 inputs");
    }
    if (call_begin(c, "concat_s8", args, 1 + n, 0, 1 + n)) {
        p.y = c->buffer[0].buf;
        p.n = (uint8_t)n;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        for (int k = 0; k < n; ++k) {
            p.x[k] = c->buffer[1 + k].buf;
            p.part[k] = TAKE(uint32_t, 0, INT32_MAX);
        }
        bool fits = good(c, mica_concat_s8_check(&p, &what), &what) && holds(c, 0, mica_concat_s8_y_bytes(&p), 1);
        for (int k = 0; fits && k < n; ++k) {
            fits = holds(c, 1 + k, (size_t)p.rows * p.part[k], 1);
        }
        if (fits && rows_fit(c, mica_concat_s8_rows(&p))) {
            MICA_CONCAT_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_pad(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_pad_s8_t p = { 0 };
    if (call_begin(c, "pad_s8", args, 2, 1, 3 + 3 * MICA_MAX_RANK)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.rank = TAKE(uint8_t, 0, 255);
        uint16_t *field[] = { p.x_dims, p.y_dims, p.begin };
        for (int k = 0; k < 3; ++k) {
            for (int i = 0; i < MICA_MAX_RANK; ++i) {
                field[k][i] = TAKE_U16();
            }
        }
        p.mode = TAKE(uint8_t, 0, 255);
        p.value = TAKE_S8();
        if (good(c, mica_pad_s8_check(&p, &what), &what) && holds(c, 0, mica_pad_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_pad_s8_y_bytes(&p), 1) && rows_fit(c, mica_pad_s8_rows(&p))) {
            MICA_PAD_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_gather(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_gather_s8_t p = { 0 };
    if (call_begin(c, "gather_s8", args, 3, 1, 4)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.indices = c->buffer[2].buf;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        p.x_n = TAKE_U16();
        p.y_n = TAKE_U16();
        p.inner = TAKE(uint32_t, 0, INT32_MAX);
        if (good(c, mica_gather_s8_check(&p, &what), &what) && holds(c, 0, mica_gather_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_gather_s8_y_bytes(&p), 1) && holds(c, 2, (size_t)p.y_n * 4, 4)
            && good(c, mica_gather_s8_check_constants(&p, &what), &what) && rows_fit(c, mica_gather_s8_rows(&p))) {
            MICA_GATHER_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_resize_linear(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_resize_linear_s8_t p = { 0 };
    if (call_begin(c, "resize_linear_s8", args, 6, 1, 7)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.rows = c->buffer[2].buf;
        p.row_weights = c->buffer[3].buf;
        p.columns = c->buffer[4].buf;
        p.column_weights = c->buffer[5].buf;
        p.in_h = TAKE_U16();
        p.in_w = TAKE_U16();
        p.in_c = TAKE_U16();
        p.out_h = TAKE_U16();
        p.out_w = TAKE_U16();
        p.row_taps = TAKE(uint8_t, 0, 255);
        p.column_taps = TAKE(uint8_t, 0, 255);
        if (good(c, mica_resize_linear_s8_check(&p, &what), &what) && holds(c, 0, mica_resize_linear_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_resize_linear_s8_y_bytes(&p), 1) && holds(c, 2, (size_t)p.out_h * 2, 2)
            && holds(c, 3, (size_t)p.out_h * p.row_taps * 2, 2) && holds(c, 4, (size_t)p.out_w * 2, 2)
            && holds(c, 5, (size_t)p.out_w * p.column_taps * 2, 2)
            && good(c, mica_resize_linear_s8_check_constants(&p, &what), &what)
            && rows_fit(c, mica_resize_linear_s8_rows(&p))) {
            MICA_RESIZE_LINEAR_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_embedding(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_embedding_s8_t p = { 0 };
    if (call_begin(c, "embedding_s8", args, 3, 1, 3)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.table = c->buffer[2].buf;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        p.vocabulary = TAKE(uint32_t, 0, INT32_MAX);
        p.width = TAKE_U16();
        if (good(c, mica_embedding_s8_check(&p, &what), &what) && holds(c, 0, mica_embedding_s8_x_bytes(&p), 4)
            && holds(c, 1, mica_embedding_s8_y_bytes(&p), 1) && holds(c, 2, mica_embedding_s8_table_bytes(&p), 1)
            && rows_fit(c, mica_embedding_s8_rows(&p))) {
            MICA_EMBEDDING_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

// An initial state that is absent is an empty buffer.
static PyObject *raw_recurrent(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_recurrent_s8_t p = { 0 };
    void *scratch = NULL;
    if (call_begin(c, "recurrent_s8", args, 10, 3, 20)) {
        p.x = c->buffer[0].buf;
        p.h0 = c->buffer[1].buf;
        p.c0 = c->buffer[2].buf;
        p.y = c->buffer[3].buf;
        p.weights = c->buffer[4].buf;
        p.terms = c->buffer[5].buf;
        p.shifts = c->buffer[6].buf;
        p.gate = c->buffer[7].buf;
        p.candidate = c->buffer[8].buf;
        p.output = c->buffer[9].buf;
        p.time = TAKE_U16();
        p.batch = TAKE_U16();
        p.in_n = TAKE_U16();
        p.units = TAKE_U16();
        p.every = TAKE(uint8_t, 0, 255);
        p.initial = TAKE(uint8_t, 0, 255);
        p.c0_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.cell = TAKE(uint8_t, 0, 255);
        p.reverse = TAKE(uint8_t, 0, 255);
        p.cell_result = TAKE(uint8_t, 0, 255);
        p.coupled = TAKE(uint8_t, 0, 255);
        p.peepholes = TAKE(uint8_t, 0, 255);
        p.cell_shift = TAKE(uint8_t, 0, 255);
        p.output_shift = TAKE(uint8_t, 0, 255);
        p.h_zero = TAKE_S8();
        p.in_mult = TAKE_S32();
        p.in_shift = TAKE_S8();
        p.out_mult = TAKE_S32();
        p.out_shift = TAKE_S8();
        size_t table = 2 * MICA_TABLE_S16, state = mica_recurrent_s8_state_bytes(&p);
        if (good(c, mica_recurrent_s8_check(&p, &what), &what) && holds(c, 0, mica_recurrent_s8_x_bytes(&p), 1)
            && holds(c, 1, p.initial >= 1 ? state : 0, 1) && holds(c, 2, p.initial >= 2 ? state : 0, 1)
            && holds(c, 3, mica_recurrent_s8_y_bytes(&p), 1) && holds(c, 4, mica_recurrent_s8_weights_bytes(&p), 1)
            && holds(c, 5, (size_t)mica_recurrent_s8_terms(&p) * 4, 4) && holds(c, 6, mica_recurrent_s8_channels(&p), 1)
            && holds(c, 7, p.cell == MICA_CELL_RNN ? 0 : table, 2) && holds(c, 8, table, 2)
            && holds(c, 9, p.cell == MICA_CELL_LSTM ? table : 0, 2) && good(c, mica_recurrent_s8_check_constants(&p, &what), &what)
            && rows_fit(c, mica_recurrent_s8_rows(&p))) {
            size_t bytes = mica_scratch_min(MICA_KERNEL_RECURRENT_S8, p.units, 0);
            if ((scratch = PyMem_Malloc(bytes)) == NULL) {
                PyErr_NoMemory();
            } else {
                MICA_RECURRENT_S8(&p, (uint32_t)c->row_begin, (uint32_t)c->row_end, scratch, bytes);
            }
        }
    }
    PyMem_Free(scratch);
    return call_end(c);
}

// The shapes of both inputs and the output, behind the other numbers.
static bool take_broadcast(call_t *c, mica_broadcast_t *shape, const char **what) {
    uint32_t a[MICA_MAX_RANK], b[MICA_MAX_RANK], y[MICA_MAX_RANK];
    uint32_t a_rank = take_dims(c, a), b_rank = take_dims(c, b), y_rank = take_dims(c, y);
    return !PyErr_Occurred() && good(c, mica_broadcast_shapes(shape, a, a_rank, b, b_rank, y, y_rank, what), what);
}

static bool holds_broadcast(call_t *c, const mica_broadcast_t *shape) {
    return holds(c, 0, mica_broadcast_a_size(shape), 1) && holds(c, 1, mica_broadcast_b_size(shape), 1)
           && holds(c, 2, mica_broadcast_y_size(shape), 1);
}

#define SHAPES (3 * (1 + MICA_MAX_RANK))  // numbers that take_broadcast takes

static PyObject *raw_mul(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_mul_s8_t p = { 0 };
    if (call_begin(c, "mul_s8", args, 3, 2, 7 + SHAPES)) {
        p.a = c->buffer[0].buf;
        p.b = c->buffer[1].buf;
        p.y = c->buffer[2].buf;
        p.mult = TAKE_S32();
        p.shift = TAKE_S8();
        p.a_zero = TAKE_S8();
        p.b_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (take_broadcast(c, &p.shape, &what) && good(c, mica_mul_s8_check(&p, &what), &what) && holds_broadcast(c, &p.shape)
            && rows_fit(c, mica_mul_s8_rows(&p))) {
            MICA_MUL_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_minmax(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_minmax_s8_t p = { 0 };
    if (call_begin(c, "minmax_s8", args, 3, 2, 9 + SHAPES)) {
        p.a = c->buffer[0].buf;
        p.b = c->buffer[1].buf;
        p.y = c->buffer[2].buf;
        p.mult_a = TAKE_S32();
        p.offset_a = TAKE_S32();
        p.mult_b = TAKE_S32();
        p.offset_b = TAKE_S32();
        p.shift = TAKE(uint8_t, 0, 255);
        p.larger = TAKE(uint8_t, 0, 1);
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (take_broadcast(c, &p.shape, &what) && good(c, mica_minmax_s8_check(&p, &what), &what)
            && holds_broadcast(c, &p.shape) && rows_fit(c, mica_minmax_s8_rows(&p))) {
            MICA_MINMAX_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_div(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_div_s8_t p = { 0 };
    if (call_begin(c, "div_s8", args, 3, 2, 7 + SHAPES)) {
        p.a = c->buffer[0].buf;
        p.b = c->buffer[1].buf;
        p.y = c->buffer[2].buf;
        p.factor = TAKE(uint32_t, 0, INT32_MAX);
        p.shift = TAKE(uint8_t, 0, 255);
        p.a_zero = TAKE_S8();
        p.b_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (take_broadcast(c, &p.shape, &what) && good(c, mica_div_s8_check(&p, &what), &what) && holds_broadcast(c, &p.shape)
            && rows_fit(c, mica_div_s8_rows(&p))) {
            MICA_DIV_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_matmul(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_matmul_s8_t p = { 0 };
    if (call_begin(c, "matmul_s8", args, 3, 2, 8 + SHAPES)) {
        p.a = c->buffer[0].buf;
        p.b = c->buffer[1].buf;
        p.y = c->buffer[2].buf;
        p.transpose_b = TAKE(uint8_t, 0, 1);
        p.mult = TAKE_S32();
        p.shift = TAKE_S8();
        p.a_zero = TAKE_S8();
        p.b_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        uint32_t a[MICA_MAX_RANK], b[MICA_MAX_RANK], y[MICA_MAX_RANK];
        uint32_t a_rank = take_dims(c, a), b_rank = take_dims(c, b), y_rank = take_dims(c, y);
        if (!PyErr_Occurred() && good(c, mica_matmul_s8_shapes(&p, a, a_rank, b, b_rank, y, y_rank, &what), &what)
            && good(c, mica_matmul_s8_check(&p, &what), &what) && holds(c, 0, mica_matmul_s8_a_bytes(&p), 1)
            && holds(c, 1, mica_matmul_s8_b_bytes(&p), 1) && holds(c, 2, mica_matmul_s8_y_bytes(&p), 1)
            && rows_fit(c, mica_matmul_s8_rows(&p))) {
            MICA_MATMUL_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_reduce(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_reduce_s8_t p = { 0 };
    if (call_begin(c, "reduce_s8", args, 2, 1, 11)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.outer = TAKE(uint32_t, 0, INT32_MAX);
        p.n = TAKE(uint32_t, 0, INT32_MAX);
        p.inner = TAKE(uint32_t, 0, INT32_MAX);
        p.mode = TAKE(uint8_t, 0, 255);
        p.mult = TAKE_S32();
        p.shift = TAKE_S8();
        p.bias = TAKE_S32();
        p.x_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (good(c, mica_reduce_s8_check(&p, &what), &what) && holds(c, 0, mica_reduce_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_reduce_s8_rows(&p), 1) && rows_fit(c, mica_reduce_s8_rows(&p))) {
            MICA_REDUCE_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_argmax(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_argmax_s8_t p = { 0 };
    if (call_begin(c, "argmax_s8", args, 2, 1, 5)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.outer = TAKE(uint32_t, 0, INT32_MAX);
        p.n = TAKE(uint32_t, 0, INT32_MAX);
        p.inner = TAKE(uint32_t, 0, INT32_MAX);
        p.minimum = TAKE(uint8_t, 0, 1);
        p.select_last = TAKE(uint8_t, 0, 1);
        if (good(c, mica_argmax_s8_check(&p, &what), &what) && holds(c, 0, mica_argmax_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_argmax_s8_y_bytes(&p), 4) && rows_fit(c, mica_argmax_s8_rows(&p))) {
            MICA_ARGMAX_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_layer_norm(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_layer_norm_s8_t p = { 0 };
    if (call_begin(c, "layer_norm_s8", args, 4, 1, 12)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.gamma = c->buffer[2].buf;
        p.beta = c->buffer[3].buf;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        p.n = TAKE_U16();
        p.inner = TAKE_U16();
        p.channels = TAKE_U16();
        p.mode = TAKE(uint8_t, 0, 255);
        p.epsilon = (uint32_t)TAKE_S32();
        p.epsilon |= (uint64_t)TAKE(uint32_t, 0, INT32_MAX) << 32;
        p.shift = TAKE(uint8_t, 0, 255);
        p.x_zero = TAKE_S8();
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (good(c, mica_layer_norm_s8_check(&p, &what), &what) && holds(c, 0, mica_layer_norm_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_layer_norm_s8_x_bytes(&p), 1) && holds(c, 2, (size_t)p.channels * 4, 4)
            && holds(c, 3, (size_t)p.channels * 4, 4) && good(c, mica_layer_norm_s8_check_constants(&p, &what), &what)
            && rows_fit(c, mica_layer_norm_s8_rows(&p))) {
            MICA_LAYER_NORM_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

static PyObject *raw_log_softmax(PyObject *module, PyObject *args) {
    (void)module;
    call_t call, *c = &call;
    const char *what = "";
    mica_log_softmax_s8_t p = { 0 };
    if (call_begin(c, "log_softmax_s8", args, 3, 1, 10)) {
        p.x = c->buffer[0].buf;
        p.y = c->buffer[1].buf;
        p.table = c->buffer[2].buf;
        p.rows = TAKE(uint32_t, 0, INT32_MAX);
        p.axis = TAKE_U16();
        p.sum = TAKE(uint8_t, 0, 1);
        p.mult = TAKE_S32();
        p.mult_log = TAKE_S32();
        p.offset = TAKE_S32();
        p.shift = TAKE(uint8_t, 0, 255);
        p.y_zero = TAKE_S8();
        p.act_min = TAKE_S8();
        p.act_max = TAKE_S8();
        if (good(c, mica_log_softmax_s8_check(&p, &what), &what) && holds(c, 0, mica_log_softmax_s8_x_bytes(&p), 1)
            && holds(c, 1, mica_log_softmax_s8_y_bytes(&p), 1) && holds(c, 2, 1024, 4)
            && good(c, mica_log_softmax_s8_check_constants(&p, &what), &what) && rows_fit(c, mica_log_softmax_s8_rows(&p))) {
            MICA_LOG_SOFTMAX_S8(&p, ROWS);
        }
    }
    return call_end(c);
}

// ---- module

static PyObject *engine_isa(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyUnicode_FromString(mica_isa());
}

static PyObject *engine_kernel_name(PyObject *module, PyObject *args) {
    (void)module;
    unsigned id;
    return PyArg_ParseTuple(args, "I", &id) ? Py_BuildValue("z", mica_kernel_name(id)) : NULL;
}

static PyObject *engine_scratch_min(PyObject *module, PyObject *args) {
    (void)module;
    unsigned kernel, out_channels, reduction;
    if (!PyArg_ParseTuple(args, "III", &kernel, &out_channels, &reduction)) {
        return NULL;
    }
    return PyLong_FromUnsignedLong(mica_scratch_min(kernel, out_channels, reduction));
}

static PyMethodDef module_methods[] = {
    { "isa", engine_isa, METH_NOARGS, NULL },
    { "kernel_name", engine_kernel_name, METH_VARARGS, NULL },
    { "scratch_min", engine_scratch_min, METH_VARARGS, NULL },
    { "conv2d_s8", raw_conv2d, METH_VARARGS, NULL },
    { "depthwise_conv2d_s8", raw_depthwise_conv2d, METH_VARARGS, NULL },
    { "conv_transpose2d_s8", raw_conv_transpose2d, METH_VARARGS, NULL },
    { "fully_connected_s8", raw_fully_connected, METH_VARARGS, NULL },
    { "max_pool2d_s8", raw_max_pool2d, METH_VARARGS, NULL },
    { "average_pool2d_s8", raw_average_pool2d, METH_VARARGS, NULL },
    { "add_s8", raw_add, METH_VARARGS, NULL },
    { "softmax_s8", raw_softmax, METH_VARARGS, NULL },
    { "lut_s8", raw_lut, METH_VARARGS, NULL },
    { "transpose_s8", raw_transpose, METH_VARARGS, NULL },
    { "move_s8", raw_move, METH_VARARGS, NULL },
    { "concat_s8", raw_concat, METH_VARARGS, NULL },
    { "pad_s8", raw_pad, METH_VARARGS, NULL },
    { "gather_s8", raw_gather, METH_VARARGS, NULL },
    { "resize_linear_s8", raw_resize_linear, METH_VARARGS, NULL },
    { "embedding_s8", raw_embedding, METH_VARARGS, NULL },
    { "recurrent_s8", raw_recurrent, METH_VARARGS, NULL },
    { "mul_s8", raw_mul, METH_VARARGS, NULL },
    { "minmax_s8", raw_minmax, METH_VARARGS, NULL },
    { "matmul_s8", raw_matmul, METH_VARARGS, NULL },
    { "reduce_s8", raw_reduce, METH_VARARGS, NULL },
    { "argmax_s8", raw_argmax, METH_VARARGS, NULL },
    { "div_s8", raw_div, METH_VARARGS, NULL },
    { "layer_norm_s8", raw_layer_norm, METH_VARARGS, NULL },
    { "log_softmax_s8", raw_log_softmax, METH_VARARGS, NULL },
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
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL) {
        return NULL;
    }
    engine_error = PyErr_NewException("mica.engine._engine.Error", NULL, NULL);
    if (engine_error == NULL || PyModule_AddObjectRef(module, "Error", engine_error) < 0 || PyType_Ready(&model_type) < 0
        || PyModule_AddObjectRef(module, "Model", (PyObject *)&model_type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

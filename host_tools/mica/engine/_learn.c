// mica: heads that learn, as a function of the extension of _engine.c.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "learn.h"

// The blocks of a list of bytearrays. Returns how many it holds on to, in `held`; of a wrong one it sets an exception.
static Py_ssize_t learn_blocks(PyObject *list, size_t bytes, Py_buffer *held, mica_learn_class_t **blocks) {
    Py_ssize_t n = 0;
    while (n < PyList_Size(list) && PyObject_GetBuffer(PyList_GetItem(list, n), &held[n], PyBUF_WRITABLE) == 0) {
        blocks[n] = held[n].buf;
        if ((size_t)held[n++].len != bytes || (uintptr_t)blocks[n - 1] % 4 != 0) {
            PyErr_SetString(PyExc_ValueError, "learn: a block of another size");
            break;
        }
    }
    return n;
}

// One operation of a head that learns: numbers, the fields of mica_learn_t, are changed in place.
PyObject *mica_engine_learn(PyObject *module, PyObject *args);
PyObject *mica_engine_learn(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer numbers, work, x, held[MICA_LEARN_MAX_CLASSES];
    mica_learn_class_t *blocks[MICA_LEARN_MAX_CLASSES];
    PyObject *list, *result = NULL;
    unsigned op, arg;
    if (!PyArg_ParseTuple(args, "Iw*w*O!y*I", &op, &numbers, &work, &PyList_Type, &list, &x, &arg)) {
        return NULL;
    }
    mica_learn_t *p = numbers.buf;
    const size_t classes = (size_t)PyList_Size(list);
    if (numbers.len != sizeof(*p) || !mica_learn_check(p, classes) || work.len != 2 * (Py_ssize_t)p->width || op > 2
        || (op != 1 && (x.len != p->width || (op == 0 ? arg : 0) >= classes))) {
        PyErr_SetString(PyExc_ValueError, "learn: numbers that are no head, or an embedding of another size");
    } else {
        const Py_ssize_t n = learn_blocks(list, mica_learn_block_bytes(p), held, blocks);
        if (!PyErr_Occurred()) {
            bool more = false;
            if (op == 0) {
                mica_learn_teach(p, blocks[arg], x.buf);
            } else if (op == 1) {
                more = mica_learn_fit(p, blocks, (uint32_t)classes, work.buf, arg);
            } else {
                mica_learn_judge(p, blocks, (uint32_t)classes, work.buf, x.buf);
            }
            result = PyBool_FromLong(more);
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            PyBuffer_Release(&held[i]);
        }
    }
    PyBuffer_Release(&x);
    PyBuffer_Release(&work);
    PyBuffer_Release(&numbers);
    return result;
}

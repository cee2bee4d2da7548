// mica: heads that learn, as a function of the extension of _engine.c.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "learn.h"

enum { TEACH, FIT, JUDGE };

PyObject *mica_engine_learn(PyObject *module, PyObject *args);

// The blocks of a list of bytearrays. Returns how many it holds on to; of a wrong one it sets an exception.
static Py_ssize_t get_blocks(PyObject *list, mica_learn_t *p, Py_buffer *held) {
    Py_ssize_t n = 0;
    while (n < (Py_ssize_t)p->classes && PyObject_GetBuffer(PyList_GetItem(list, n), &held[n], PyBUF_WRITABLE) == 0) {
        p->blocks[n] = held[n].buf;
        if ((size_t)held[n++].len != mica_learn_block_bytes(p)) {
            PyErr_SetString(PyExc_ValueError, "learn: a block of another size");
            break;
        }
    }
    return n;
}

// One operation of a head that learns: numbers, the first fields of mica_learn_t, are changed in place.
PyObject *mica_engine_learn(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer numbers, work, x, held[MICA_LEARN_MAX_CLASSES];
    PyObject *list, *result = NULL;
    unsigned op, arg;
    if (!PyArg_ParseTuple(args, "Iw*w*O!y*I", &op, &numbers, &work, &PyList_Type, &list, &x, &arg)) {
        return NULL;
    }
    mica_learn_t p = { .classes = (uint32_t)PyList_Size(list), .work = work.buf };
    const bool whole = (size_t)numbers.len == MICA_LEARN_NUMBERS_BYTES && p.classes <= MICA_LEARN_MAX_CLASSES;
    memcpy(&p, numbers.buf, whole ? MICA_LEARN_NUMBERS_BYTES : 0);
    if (!whole || !mica_learn_check(&p) || work.len != 2 * (Py_ssize_t)p.width || op > JUDGE
        || (op != FIT && (x.len != p.width || arg >= p.classes))) {
        PyErr_SetString(PyExc_ValueError, "learn: numbers that are no head, or an embedding of another size");
    } else {
        const Py_ssize_t n = get_blocks(list, &p, held);
        if (!PyErr_Occurred()) {
            bool more = false;
            if (op == TEACH) {
                mica_learn_teach(&p, arg, x.buf);
            } else if (op == FIT) {
                more = mica_learn_fit(&p, arg);
            } else {
                mica_learn_judge(&p, x.buf);
                memcpy(numbers.buf, &p, MICA_LEARN_NUMBERS_BYTES);
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

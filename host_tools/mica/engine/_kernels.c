// mica: what is known of the kernels, as functions of the extension of _engine.c.
#include <Python.h>

#include "mica_select.h"

PyObject *mica_engine_isa(PyObject *module, PyObject *args);
PyObject *mica_engine_kernel_name(PyObject *module, PyObject *args);
PyObject *mica_engine_scratch_min(PyObject *module, PyObject *args);

// Name of the kernels; for tests with a number from 0 on, what all models use from now on, at most (mica_x86_t).
PyObject *mica_engine_isa(PyObject *module, PyObject *args) {
    (void)module;
    unsigned most;
    if (!PyArg_ParseTuple(args, "|I", &most)) {
        return NULL;
    }
    #ifdef MICA_X86_KERNELS_H
    if (PyTuple_Size(args) == 1) {
        mica_x86_limit(most);
    }
    #endif
    return PyUnicode_FromString(mica_isa());
}

PyObject *mica_engine_kernel_name(PyObject *module, PyObject *args) {
    (void)module;
    unsigned id;
    return PyArg_ParseTuple(args, "I", &id) ? Py_BuildValue("z", mica_kernel_name(id)) : NULL;
}

PyObject *mica_engine_scratch_min(PyObject *module, PyObject *args) {
    (void)module;
    unsigned kernel, out_channels, reduction;
    if (!PyArg_ParseTuple(args, "III", &kernel, &out_channels, &reduction)) {
        return NULL;
    }
    return PyLong_FromUnsignedLong(mica_scratch_min(kernel, out_channels, reduction));
}

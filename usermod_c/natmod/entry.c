// Where MicroPython enters a native module that was linked as if for a fixed address (toolchain/native_image.py): alone
// compiled for any, it finds the two tables that the linker of native modules knows by their names only here.
#include "py/nativeglue.h"
#include "py/objfun.h"

extern const mp_fun_table_t *mp_native_at_functions;
extern const uint16_t *mp_native_at_names;
extern const uint16_t mp_native_qstr_table[];

mp_obj_t mp_native_at_start(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args);
mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args);

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args) {
    mp_native_at_functions = &mp_fun_table;
    mp_native_at_names = mp_native_qstr_table;
    return mp_native_at_start(self, n_args, n_kw, args);
}

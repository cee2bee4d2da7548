// What the binding needs of MicroPython, for a module that was not linked with it: included before every file of
// ../binding when those are compiled for a native .mpy.
//
// MicroPython gives such a module a table of functions (py/nativeglue.h), and py/dynruntime.h writes its API in terms
// of the table. The binding uses more: what is missing comes here as macros over functions of native.c; start.c begins.
//
// Names. A name's number (qstr) is known when the module has been loaded, so no constant table can hold it. Here
// MP_QSTR_x is a constant of our own, NATIVE_NAMES plus x's place in the module's list of names (qstrs.h, written by
// the build); whatever takes such a table or such a constant translates: mp_arg_parse_all, mp_obj_new_attrtuple,
// mp_native_relocate.
#ifndef MICA_NATMOD_NATIVE_H
#define MICA_NATMOD_NATIVE_H

#include "py/mpconfig.h"
#include "py/obj.h"

// Types that the table of functions lacks, looked up once, when the module is loaded: later its callers' globals would
// be asked, where `bytes` may be anything. Before py/objarray.h, whose functions use them.
typedef struct {
    const mp_obj_type_t *array, *attrtuple, *bytearray, *bytes, *float_, *int_, *memoryview, *tuple;
    const mp_obj_type_t *IndexError, *MemoryError, *OverflowError, *RuntimeError, *TypeError, *ValueError;
} mp_native_types_t;
extern mp_native_types_t mp_native_types;

#define mp_type_memoryview (*mp_native_types.memoryview)

#include "py/binary.h"
#include "py/gc.h"
#include "py/mphal.h"
#include "py/objarray.h"
#include "py/objlist.h"
#include "py/objstr.h"
#include "py/objtuple.h"
#include "py/runtime.h"
#include "py/stackctrl.h"
#include "py/unicode.h"
#include "py/nativeglue.h"

// Linked as if for a fixed address (toolchain/native_image.py): two addresses that only the loader knows.
#ifdef MICA_NATIVE_FIXED
extern const mp_fun_table_t *mp_native_at_functions;
extern const uint16_t *mp_native_at_names;
#define mp_fun_table (*mp_native_at_functions)
#define mp_native_qstr_table mp_native_at_names
#endif

#include "py/dynruntime.h"

// In constant tables; mpy_ld.py knows where the table of functions has it.
#undef mp_type_type

#undef mp_type_array
#undef mp_type_bytearray
#undef mp_type_bytes
#undef mp_type_int
#undef mp_type_tuple
#undef mp_type_IndexError
#undef mp_type_RuntimeError
#undef mp_type_TypeError
#undef mp_type_ValueError
#define mp_type_array (*mp_native_types.array)
#define mp_type_bytearray (*mp_native_types.bytearray)
#define mp_type_bytes (*mp_native_types.bytes)
#define mp_type_int (*mp_native_types.int_)
#define mp_type_tuple (*mp_native_types.tuple)
#define mp_type_IndexError (*mp_native_types.IndexError)
#define mp_type_MemoryError (*mp_native_types.MemoryError)
#define mp_type_OverflowError (*mp_native_types.OverflowError)
#define mp_type_RuntimeError (*mp_native_types.RuntimeError)
#define mp_type_TypeError (*mp_native_types.TypeError)
#define mp_type_ValueError (*mp_native_types.ValueError)

// The original proves at compile time which types it cannot be asked for.
#undef mp_obj_is_type
#define mp_obj_is_type(o, t) (mp_obj_is_exact_type(o, t))

// ---- Names ----

#define NATIVE_NAMES (0x4000) // above every qstr that is a constant

// Where the numbers of our names lead: place + 1 in the module's list, 0 for none. start.c fills it.
#define NATIVE_SLOTS (256)
extern uint8_t mp_native_slots[NATIVE_SLOTS];

#define MP_OBJ_QSTR_VALUE_OF(o) ((qstr)((mp_uint_t)(o) >> 3))
#undef MP_ROM_QSTR
#define MP_ROM_QSTR(q) ((mp_const_obj_t)((((mp_uint_t)(q)) << 3) | 2)) // until mp_native_relocate() has seen it

// What None is, too, only the firmware knows: null in tables of arguments.
#undef MP_ROM_NONE
#define MP_ROM_NONE ((mp_const_obj_t)0)

qstr mp_native_qstr(qstr q);        // the number here of one of our names
mp_obj_t mp_native_name(qstr q);    // as an object
qstr mp_native_qstr_back(qstr q);   // our constant for a number; else a number that no constant has
void mp_native_arg_parse_all(size_t n_pos, const mp_obj_t *pos, mp_map_t *kws, size_t n_allowed,
    const mp_arg_t *allowed, mp_arg_val_t *out_vals);
mp_obj_t mp_native_new_attrtuple(const qstr *fields, size_t n, const mp_obj_t *items);

#undef mp_arg_parse_all
#define mp_arg_parse_all mp_native_arg_parse_all
#define mp_obj_new_attrtuple mp_native_new_attrtuple
#undef MP_OBJ_NEW_QSTR
#define MP_OBJ_NEW_QSTR mp_native_name
// Whoever needs one of these: translate the name first.
#undef mp_load_name
#undef mp_load_global
#undef mp_load_attr
#undef mp_load_method
#undef mp_load_method_maybe
#undef mp_store_global
#undef mp_store_attr

// ---- Numbers ----

// That of dynruntime.h drops the high bits of numbers too large.
mp_int_t mp_native_get_int(mp_const_obj_t obj);
bool mp_native_get_float_maybe(mp_obj_t obj, mp_float_t *value);
mp_obj_t mp_native_new_int_from_ull(unsigned long long value);

#undef mp_obj_get_int
#define mp_obj_get_int mp_native_get_int
#define mp_obj_get_float_maybe mp_native_get_float_maybe
#define mp_obj_new_int_from_ull mp_native_new_int_from_ull

#undef mp_binary_get_val_array
#define mp_binary_get_val_array(typecode, p, index) \
    (mp_fun_table.binary_get_val_array((typecode), (void *)(p), (index)))

// ---- Texts ----

const char *mp_native_get_str(mp_obj_t obj); // of a str or bytes; raises TypeError for all else

#undef mp_obj_str_get_str
#define mp_obj_str_get_str mp_native_get_str
#define mp_obj_get_type_str(o) \
    (mp_native_get_str(mp_fun_table.native_to_obj(mp_obj_get_type(o)->name, MP_NATIVE_TYPE_QSTR)))
#define mp_print_str(print, s) mp_printf((print), "%s", (s))

// ---- Calls ----

extern mp_obj_t mp_native_callable; // the built-in function, which looks into instances, too
bool mp_native_is_callable(mp_obj_t obj);

#define mp_obj_is_callable mp_native_is_callable
#define mp_call_function_0(fun) mp_call_function_n_kw((fun), 0, 0, NULL)

// ---- Exceptions ----

NORETURN void mp_native_raise_msg(const mp_obj_type_t *type, const char *text);
NORETURN void mp_native_raise_msg_varg(const mp_obj_type_t *type, const char *format, ...);

#undef mp_raise_msg
#undef mp_raise_TypeError
#undef mp_raise_ValueError
#define mp_raise_msg mp_native_raise_msg
#define mp_raise_msg_varg mp_native_raise_msg_varg
#define mp_raise_TypeError(text) mp_native_raise_msg(&mp_type_TypeError, (text))
#define mp_raise_ValueError(text) mp_native_raise_msg(&mp_type_ValueError, (text))

// ---- Memory ----

extern uintptr_t mp_native_heap_start, mp_native_heap_end;
void *mp_native_malloc0(size_t n);

#define m_malloc0 mp_native_malloc0
#define m_malloc_maybe(n) (m_realloc_maybe(NULL, (n), false))

// No function of the table looks at the C stack; what recurses in the binding has a limit of its own.
#undef MP_STACK_CHECK
#define MP_STACK_CHECK() ((void)0)

#endif

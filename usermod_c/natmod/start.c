// mpy_init(), which makes the native module of the binding, with names, types and globals as in this firmware.
#include <string.h>

#include "native.h"
#include "../binding/mp_mica.h"

#if NATIVE_NAMES_COUNT > NATIVE_SLOTS * 3 / 4
#error "NATIVE_SLOTS: more are needed, and two bytes for each"
#endif

static void fill_slots(void) {
    for (size_t place = 0; place < NATIVE_NAMES_COUNT; place++) {
        size_t i = mp_native_qstr_table[place] % NATIVE_SLOTS;
        while (mp_native_slots[i] != 0) {
            i = (i + 1) % NATIVE_SLOTS;
        }
        mp_native_slots[i] = (uint8_t)(place + 1);
    }
}

// ---- Types ----

// Constant once they are relocated, as the linker's .data.rel.ro, where they lie: the loader has put in addresses, and
// we put in names. Attributes come with the number of this firmware; the binding's functions know ours.
static const mp_obj_type_t *const types[] = {
    &mp_mica_arena_type, &mp_mica_model_type, &mp_mica_quantised_type, &mp_mica_step_type,
};
mp_attr_fun_t mp_native_attrs[MP_ARRAY_SIZE(types)];

static void native_attr(mp_obj_t self_in, qstr attr, mp_obj_t *dest) {
    const mp_obj_type_t *type = ((mp_obj_base_t *)MP_OBJ_TO_PTR(self_in))->type;
    for (size_t i = 0; i < MP_ARRAY_SIZE(types); i++) {
        if (type == types[i]) {
            mp_native_attrs[i](self_in, mp_native_qstr_back(attr), dest);
            return;
        }
    }
}

static void relocate_names(const mp_map_t *map) {
    for (size_t i = 0; i < map->used; i++) {
        map->table[i].key = mp_native_name(MP_OBJ_QSTR_VALUE_OF(map->table[i].key));
    }
}

static void relocate_types(void) {
    for (size_t i = 0; i < MP_ARRAY_SIZE(types); i++) {
        mp_obj_type_t *type = (mp_obj_type_t *)types[i];
        type->name = (uint16_t)mp_native_qstr(type->name);
        if (MP_OBJ_TYPE_HAS_SLOT(type, attr)) {
            mp_native_attrs[i] = MP_OBJ_TYPE_GET_SLOT(type, attr);
            type->slots[type->slot_index_attr - 1] = (const void *)native_attr;
        }
        if (MP_OBJ_TYPE_HAS_SLOT(type, locals_dict)) {
            relocate_names(&MP_OBJ_TYPE_GET_SLOT(type, locals_dict)->map);
        }
    }
}

static mp_obj_t import_attr(qstr module, qstr name) {
    mp_obj_t from = mp_import_name(mp_native_qstr(module), mp_const_none, MP_OBJ_NEW_SMALL_INT(0));
    return mp_fun_table.load_attr(from, mp_native_qstr(name));
}

static mp_obj_t call_gc(mp_obj_t gc, qstr name) {
    return mp_call_function_n_kw(mp_fun_table.load_attr(gc, mp_native_qstr(name)), 0, 0, NULL);
}

static void find_heap(void) {
    mp_obj_t gc = mp_import_name(mp_native_qstr(MP_QSTR_gc), mp_const_none, MP_OBJ_NEW_SMALL_INT(0));
    uintptr_t size = (uintptr_t)mp_native_get_int(call_gc(gc, MP_QSTR_mem_alloc))
        + (uintptr_t)mp_native_get_int(call_gc(gc, MP_QSTR_mem_free));
    uintptr_t block = (uintptr_t)m_malloc(1);
    mp_native_heap_start = block > size ? block - size : 0;
    mp_native_heap_end = UINTPTR_MAX - block > size ? block + size : UINTPTR_MAX;
}

// ---- Threads ----

// Before anything of the binding runs.
static void find_lock(void) {
    #if __ARM_ARCH == 6 || defined(__riscv)
    mp_obj_t platform = import_attr(MP_QSTR_sys, MP_QSTR_platform);
    mp_native_lock = strcmp(mp_native_get_str(platform), "rp2") == 0 ? NATIVE_LOCK_AT : NULL;
    #endif
}

// ---- The module ----

mp_module_context_t *mp_native_context; // keeps the list of names, where the code is no part of the heap

static const mp_obj_type_t *builtin_type(qstr name) {
    return MP_OBJ_TO_PTR(mp_fun_table.load_global(mp_native_qstr(name)));
}

static void find_types(void) {
    mp_native_types_t *t = &mp_native_types;
    mp_native_callable = mp_fun_table.load_global(mp_native_qstr(MP_QSTR_callable));
    t->array = MP_OBJ_TO_PTR(import_attr(MP_QSTR_array, MP_QSTR_array));
    t->attrtuple = mp_obj_get_type(import_attr(MP_QSTR_sys, MP_QSTR_implementation));
    t->bytearray = builtin_type(MP_QSTR_bytearray);
    t->bytes = builtin_type(MP_QSTR_bytes);
    t->float_ = builtin_type(MP_QSTR_float);
    t->int_ = builtin_type(MP_QSTR_int);
    t->memoryview = builtin_type(MP_QSTR_memoryview);
    t->tuple = builtin_type(MP_QSTR_tuple);
    t->IndexError = builtin_type(MP_QSTR_IndexError);
    t->MemoryError = builtin_type(MP_QSTR_MemoryError);
    t->OverflowError = builtin_type(MP_QSTR_OverflowError);
    t->RuntimeError = builtin_type(MP_QSTR_RuntimeError);
    t->TypeError = builtin_type(MP_QSTR_TypeError);
    t->ValueError = builtin_type(MP_QSTR_ValueError);
}

#ifdef MICA_NATIVE_FIXED
#define mpy_init mp_native_at_start // entry.c calls it
mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args);
const mp_fun_table_t *mp_native_at_functions;
const uint16_t *mp_native_at_names;
#endif

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args) {
    (void)n_args;
    (void)n_kw;
    (void)args;
    // Until the end the module's globals are the current ones, so names are the built-in ones.
    mp_obj_dict_t *old_globals = mp_fun_table.swap_globals(self->context->module.globals);
    mp_native_context = (mp_module_context_t *)self->context;
    fill_slots();
    find_types();
    find_lock();
    find_heap();
    relocate_types();
    mp_mica_arena_static.base.type = &mp_mica_arena_type;
    mp_mica_arena_static.bytes = MICA_ARENA_BYTES;
    mp_mica_cores_init();
    const mp_map_t *map = &mp_mica_module_globals.map;
    for (size_t i = 0; i < map->used; i++) {
        mp_obj_t value = map->table[i].value;
        if (mp_obj_is_qstr(value)) {
            value = mp_native_name(MP_OBJ_QSTR_VALUE_OF(value));
        }
        mp_fun_table.store_global(mp_native_qstr(MP_OBJ_QSTR_VALUE_OF(map->table[i].key)), value);
    }
    mp_fun_table.swap_globals(old_globals);
    return mp_const_none;
}

// The module _mica: the engine seen from MicroPython. Package `mica` (firmware/mica) is the face for people.

#include <string.h>

#include "py/objarray.h"

#include "mp_mica.h"

// info(): what this firmware can run.
static mp_obj_t module_info(void) {
    mp_obj_t version[] = {
        MP_OBJ_NEW_SMALL_INT(MICA_VERSION_MAJOR), MP_OBJ_NEW_SMALL_INT(MICA_VERSION_MINOR),
    };
    mp_obj_t kernels = mp_obj_new_list(0, NULL);
    for (uint32_t id = 0; id <= MICA_MAX_KERNEL_ID; id++) {
        if (mica_kernel_present(id)) {
            mp_obj_list_append(kernels, mp_mica_new_str(mica_kernel_name(id), 64));
        }
    }
    static const qstr fields[] = { MP_QSTR_format, MP_QSTR_isa, MP_QSTR_arena_bytes, MP_QSTR_kernels };
    mp_obj_t items[] = {
        mp_obj_new_tuple(2, version),
        mp_mica_new_str(mica_isa(), 64),
        mp_obj_new_int_from_uint(MICA_ARENA_BYTES),
        kernels,
    };
    return mp_obj_new_attrtuple(fields, MP_ARRAY_SIZE(fields), items);
}
static MP_DEFINE_CONST_FUN_OBJ_0(module_info_obj, module_info);

static MP_DEFINE_CONST_FUN_OBJ_KW(module_load_obj, 1, mp_mica_model_load);

#if MICROPY_MODULE_BUILTIN_INIT
// A soft reset keeps .bss, and with it the busy flag of a run that it cut short. MicroPython calls __init__ at every
// import statement; entered among the loaded modules, which a soft reset empties, ours is called once a session.
static mp_obj_t module_init(void) {
    mp_mica_arena_reset();
    mp_mica_cores_init();
    extern const mp_obj_module_t mp_module__mica;
    mp_obj_dict_store(MP_OBJ_FROM_PTR(&MP_STATE_VM(mp_loaded_modules_dict)), MP_OBJ_NEW_QSTR(MP_QSTR__mica),
        MP_OBJ_FROM_PTR(&mp_module__mica));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(module_init_obj, module_init);
#endif

static const mp_rom_map_elem_t module_globals_table[] = {
    { MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR__mica) },
    #if MICROPY_MODULE_BUILTIN_INIT
    { MP_ROM_QSTR(MP_QSTR___init__), MP_ROM_PTR(&module_init_obj) },
    #endif
    { MP_ROM_QSTR(MP_QSTR_load), MP_ROM_PTR(&module_load_obj) },
    { MP_ROM_QSTR(MP_QSTR_info), MP_ROM_PTR(&module_info_obj) },
    { MP_ROM_QSTR(MP_QSTR_cores), MP_ROM_PTR(&mp_mica_cores_obj) },
    #ifndef MICA_WITHOUT_TOKENS
    { MP_ROM_QSTR(MP_QSTR_sample), MP_ROM_PTR(&mp_mica_sample_obj) },
    #endif
    #ifndef MICA_WITHOUT_LEARN
    { MP_ROM_QSTR(MP_QSTR_learn), MP_ROM_PTR(&mp_mica_learn_obj) },
    #endif
    #ifndef MICA_WITHOUT_PDM
    { MP_ROM_QSTR(MP_QSTR_pdm), MP_ROM_PTR(&mp_mica_pdm_obj) },
    #endif
    #ifndef MICA_WITHOUT_PICTURE
    { MP_ROM_QSTR(MP_QSTR_see), MP_ROM_PTR(&mp_mica_see_obj) },
    #endif
    { MP_ROM_QSTR(MP_QSTR_Arena), MP_ROM_PTR(&mp_mica_arena_type) },
    { MP_ROM_QSTR(MP_QSTR_Model), MP_ROM_PTR(&mp_mica_model_type) },
    { MP_ROM_QSTR(MP_QSTR_Quantised), MP_ROM_PTR(&mp_mica_quantised_type) },
    { MP_ROM_QSTR(MP_QSTR_arena), MP_ROM_PTR(&mp_mica_arena_static) },
    #ifndef MICA_WITHOUT_RAW
    { MP_ROM_QSTR(MP_QSTR_run_kernel), MP_ROM_PTR(&mp_mica_run_kernel_obj) },
    #endif
};
MP_DEFINE_CONST_DICT(mp_mica_module_globals, module_globals_table);

#if !MICROPY_ENABLE_DYNRUNTIME
const mp_obj_module_t mp_module__mica = {
    .base = { &mp_type_module },
    .globals = (mp_obj_dict_t *)&mp_mica_module_globals,
};
MP_REGISTER_MODULE(MP_QSTR__mica, mp_module__mica);
#endif

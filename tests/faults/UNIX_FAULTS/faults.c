// _faults: memory that runs out, and Ctrl-C, at a place that a test names: the same one each time.
//
//     _faults.start(first, last, poll)  # from now on allocations first to last fail, and Ctrl-C comes at the poll-th
//                                       # place at which the VM looks for it; all count from 1, 0 is never
//     _faults.stop()                    # -> (allocations, polls) since then; nothing fails any more
//
// start() and stop() never fail: the faults begin after the one, and end before the other allocates.
#include "py/gc.h"
#include "py/objtuple.h"
#include "py/runtime.h"

static struct {
    bool on;
    mp_uint_t first, last, poll;
    mp_uint_t allocations, polls;
} faults;

void *__real_gc_alloc(size_t bytes, unsigned int flags);
void *__wrap_gc_alloc(size_t bytes, unsigned int flags);
void *__real_gc_realloc(void *block, size_t bytes, bool allow_move);
void *__wrap_gc_realloc(void *block, size_t bytes, bool allow_move);

static bool fails(void) {
    if (!faults.on) {
        return false;
    }
    faults.allocations++;
    return faults.allocations >= faults.first && faults.allocations <= faults.last;
}

void *__wrap_gc_alloc(size_t bytes, unsigned int flags) {
    return fails() ? NULL : __real_gc_alloc(bytes, flags);
}

void *__wrap_gc_realloc(void *block, size_t bytes, bool allow_move) {
    // To shrink a block always works.
    if ((block == NULL || bytes > gc_nbytes(block)) && fails()) {
        return NULL;
    }
    return __real_gc_realloc(block, bytes, allow_move);
}

void mica_faults_poll(void) {
    if (faults.on && ++faults.polls == faults.poll) {
        mp_sched_keyboard_interrupt();
    }
}

static mp_obj_t faults_start(mp_obj_t first, mp_obj_t last, mp_obj_t poll) {
    faults.first = (mp_uint_t)mp_obj_get_int(first);
    faults.last = (mp_uint_t)mp_obj_get_int(last);
    faults.poll = (mp_uint_t)mp_obj_get_int(poll);
    faults.allocations = faults.polls = 0;
    faults.on = true;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_3(faults_start_obj, faults_start);

static mp_obj_t faults_stop(void) {
    faults.on = false;
    mp_obj_t counts[] = { mp_obj_new_int_from_uint(faults.allocations), mp_obj_new_int_from_uint(faults.polls) };
    return mp_obj_new_tuple(2, counts);
}
static MP_DEFINE_CONST_FUN_OBJ_0(faults_stop_obj, faults_stop);

static const mp_rom_map_elem_t faults_globals_table[] = {
    { MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR__faults) },
    { MP_ROM_QSTR(MP_QSTR_start), MP_ROM_PTR(&faults_start_obj) },
    { MP_ROM_QSTR(MP_QSTR_stop), MP_ROM_PTR(&faults_stop_obj) },
};
static MP_DEFINE_CONST_DICT(faults_globals, faults_globals_table);

const mp_obj_module_t mica_faults_module = {
    .base = { &mp_type_module },
    .globals = (mp_obj_dict_t *)&faults_globals,
};
MP_REGISTER_MODULE(MP_QSTR__faults, mica_faults_module);

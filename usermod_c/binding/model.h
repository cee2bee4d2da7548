// What the files of a model share: model.c loads it and has its methods in a table, model_run.c runs it, model_io.c
// reaches its tensors, model_views.c is below them all.
#ifndef MICA_BINDING_MODEL_H
#define MICA_BINDING_MODEL_H

#include "mp_mica.h"

// Every block is held by its head: `engine` points into `tables`, the tensors into arena, state and file.
typedef struct {
    mp_obj_base_t base;
    mica_model_t *engine; // null after deinit()
    void *tables;         // where the engine built the model
    mp_obj_t file;        // whose bytes are used in place; None where they were copied
    void *file_head;      // heap block that holds the bytes, null where they are not on the heap
    const uint8_t *file_data;
    size_t file_bytes;
    void *state;
    mp_mica_arena_t *arena;
    uint8_t *arena_data; // where the arena was at load: the engine's addresses hold only there
    size_t arena_bytes;
    mp_obj_t steps;
    mp_obj_t source;      // of the fed input: a buffer or a function; null where none has been given
    mp_mica_floats_t *floats; // of the output that read() looked at last; null where it had few values
    uint8_t **held;       // for each step its size and a copy of its constants in RAM, or null; null: no step has one
    size_t held_bytes;    // of all copies
    mp_obj_t *instead;    // for each step what replace() put in its place; null where nothing is, nor any kernel lacks
    uint32_t id; // of this load; marks the arena
    uint32_t check_at, check_crc; // how far check() has come, and the checksum up to there
    bool copied;
    bool finished; // the last step of a run has run
    bool told;     // that values are cut off
    uint8_t stays; // TENANT or BORROWER of the static arena (arena.c)
} mp_mica_model_t;

// arena.c: what a model has to do with arenas.
uint32_t mp_mica_scratch_of(const mica_info_t *info); // bytes: what its file wants, at most what the board has
void mp_mica_take_arena(mp_mica_model_t *self, mp_obj_t obj, const mica_info_t *info); // obj: the caller's, None
#if MICA_SHARES_ARENA
void mp_mica_leave_arena(mp_mica_model_t *self); // the static one; looks at nothing that may be on the heap
void mp_mica_borrow_arena(mp_mica_model_t *self); // the static one, as scratch of a run; neither allocates nor raises
void mp_mica_give_back(mp_mica_model_t *self);
#else
#define mp_mica_leave_arena(self)
#define mp_mica_borrow_arena(self)
#define mp_mica_give_back(self)
#endif

typedef struct {
    mp_obj_base_t base;
    mp_mica_model_t *model;
    uint16_t index; // of a strip its first
    bool last; // with it done, the outputs are there
    bool strip;
} mp_mica_step_t; // 16 bytes, one block of the heap on 32-bit boards

mp_mica_model_t *mp_mica_model_of(mp_obj_t self_in); // raises where deinit() has closed it
mp_mica_model_t *mp_mica_model_in_place(mp_obj_t self_in);
mp_mica_model_t *mp_mica_model_to_write(mp_obj_t self_in);
void mp_mica_check_arena(const mp_mica_model_t *self, mp_mica_span_t *span);
uint32_t mp_mica_index_of(mp_obj_t index, uint32_t n, const char *what);
void mp_mica_tensor_of(const mp_mica_model_t *self, uint32_t id, mica_tensor_t *t);
mp_obj_t mp_mica_name_of(const mp_mica_model_t *self, const char *name);
size_t mp_mica_element_size(char typecode);
mp_obj_t mp_mica_new_view(void *head, void *p, size_t bytes, char typecode, bool writable);
mp_obj_t mp_mica_tensor_view(const mp_mica_model_t *self, const mica_tensor_t *t, const mp_mica_span_t *arena,
    bool writable);
uint32_t mp_mica_whole_bytes(const mica_tensor_t *t);
void mp_mica_need_instead(mp_mica_model_t *self);

// The methods.
MP_DECLARE_CONST_FUN_OBJ_1(mp_mica_model_begin_obj);
MP_DECLARE_CONST_FUN_OBJ_1(mp_mica_model_end_obj);
MP_DECLARE_CONST_FUN_OBJ_1(mp_mica_model_finish_obj);
MP_DECLARE_CONST_FUN_OBJ_3(mp_mica_model_call_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_in_strip_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_ran_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_rows_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_step_info_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_step_params_obj);
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_model_step_constant_obj);
MP_DECLARE_CONST_FUN_OBJ_3(mp_mica_model_replace_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_input_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_output_obj);
MP_DECLARE_CONST_FUN_OBJ_3(mp_mica_model_write_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_read_obj);
MP_DECLARE_CONST_FUN_OBJ_3(mp_mica_model_read_into_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_tensor_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_tensor_data_obj);
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_model_tensor_view_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_load_tensor_obj);
MP_DECLARE_CONST_FUN_OBJ_3(mp_mica_model_store_tensor_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_golden_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_golden_crcs_obj);
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_model_check_obj);
MP_DECLARE_CONST_FUN_OBJ_1(mp_mica_model_rearm_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_hold_obj);
MP_DECLARE_CONST_FUN_OBJ_1(mp_mica_model_reset_state_obj);
MP_DECLARE_CONST_FUN_OBJ_2(mp_mica_model_put_state_obj);

#endif

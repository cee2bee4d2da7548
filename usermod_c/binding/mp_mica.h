// What the files of the MicroPython binding share. The engine below knows nothing of MicroPython.
//
// Two rules of MicroPython's garbage collector shape everything here. It frees a block unless some word in the heap, on
// the stack or among the roots points to the block's *first* byte. So every buffer is held by its head, and views are
// made as (head, offset). And it never moves a block, but bytearray.extend() does: so a caller's bytearray is asked for
// its address again before each use.
#ifndef MICA_BINDING_MP_MICA_H
#define MICA_BINDING_MP_MICA_H

#include "py/obj.h"
#include "py/runtime.h"

#include "heap.h"
#include "mica.h"

// Bytes of RAM for activations that every firmware sets aside; a board overrides it.
#ifndef MICA_ARENA_BYTES
#define MICA_ARENA_BYTES (16384)
#endif
// Bytes of scratch that a model gets at most, whatever its file wants; a board overrides it.
#ifndef MICA_SCRATCH_BYTES
#define MICA_SCRATCH_BYTES (16384)
#endif
// Where a model that dies can say so, the static arena is scratch for a larger one. (Native modules have none.)
#define MICA_SHARES_ARENA (MICROPY_ENABLE_FINALISER && MICA_ARENA_BYTES > 0 && !MICROPY_ENABLE_DYNRUNTIME)

// Who uses an arena. In a caller's buffer it lies in the buffer itself, so that two models given the same bytearray
// share it; nothing in it forms an address, so a caller who overwrites it can only free a busy arena too early.
typedef struct {
    uint32_t magic; // anything else in a caller's buffer means: never used, or overwritten
    uint32_t busy;  // id of the model that is running, 0 for none
    uint32_t owner; // id of the model whose outputs are in the arena, 0 for none
    uint32_t reserved;
} mp_mica_control_t;

typedef struct {
    mp_obj_base_t base;
    mp_obj_t source; // the caller's bytearray or array, MP_OBJ_NULL where the memory is ours
    void *memory;    // ours: start of the heap block, or the static arena; 16-byte aligned
    size_t bytes;
    mp_mica_control_t control; // ours
} mp_mica_arena_t;

// Where an arena is at this moment.
typedef struct {
    void *head;    // for views: the start of the heap block, if it is on the heap
    uint8_t *data; // aligned to MICA_ALIGN; null where the buffer is too small for anything
    size_t bytes;
    mp_mica_control_t *control;
} mp_mica_span_t;

extern const mp_obj_type_t mp_mica_arena_type;
extern const mp_obj_type_t mp_mica_model_type;
extern const mp_obj_type_t mp_mica_step_type;
extern const mp_obj_dict_t mp_mica_module_globals;
extern mp_mica_arena_t mp_mica_arena_static;

// arena.c
mp_mica_arena_t *mp_mica_arena_from_obj(mp_obj_t obj);      // an Arena, or a bytearray/array; raises TypeError
bool mp_mica_arena_static_ready(void);                      // false: a native module, and no memory for it
mp_mica_arena_t *mp_mica_arena_new(size_t bytes);           // null where the heap has no such block
void mp_mica_arena_span(const mp_mica_arena_t *self, mp_mica_span_t *span);
bool mp_mica_arena_take(const mp_mica_span_t *span, uint32_t id); // test and set, atomic; false: somebody is running
void mp_mica_arena_release(const mp_mica_span_t *span, uint32_t id);
uint32_t mp_mica_arena_owner(const mp_mica_span_t *span);
uint32_t mp_mica_arena_new_id(void);
void mp_mica_arena_arm(mp_mica_arena_t *self);              // writes the guard words round it
bool mp_mica_arena_intact(const mp_mica_arena_t *self);     // whether they are still there; true where it has none
void mp_mica_arena_reset(void);                             // the static one, at the start of a session

// model.c
mp_obj_t mp_mica_model_load(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args);

// tokens.c
mp_obj_t mp_mica_tokens(const mica_model_t *m); // what the file says of them; these raise ValueError where it has none
mp_obj_t mp_mica_piece(const mica_model_t *m, mp_obj_t token); // its bytes
mp_obj_t mp_mica_encode(const mica_model_t *m, mp_obj_t text); // a list of tokens
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_sample_obj);

// learn.c
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_learn_obj);

// pdm.c
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_pdm_obj);

// see.c
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_see_obj);

// cores.c
void mp_mica_run_step(const mica_model_t *m, uint32_t i); // as mica_run_step(), on the cores that there are
void mp_mica_run_rows(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end); // as mica_run_rows(), likewise
void mp_mica_cores_init(void);
#if defined(PICO_BUILD)
extern const mica_fetch_t mp_mica_fetch; // fetch_rp2.c
#endif
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_cores_obj);

// values.c
extern const mp_obj_type_t mp_mica_quantised_type; // what holds a tensor's own integers
char mp_mica_typecode(uint8_t dtype); // of a memoryview: 'b', 'B', 'h', 'i' or 'f'
mp_int_t mp_mica_get_int(mp_obj_t obj); // of an int itself: calls no __int__
// Returns how many values lie farther outside of the tensor's range than it is wide. odd: what else it takes.
enum { MP_MICA_NAN = 1, MP_MICA_INFINITY = 2 };
uint32_t mp_mica_values_store(const mica_tensor_t *t, mp_obj_t values, uint8_t odd);
// Raises ValueError unless a buffer is as long as n values of `size` bytes.
void mp_mica_check_length(const mp_buffer_info_t *buf, size_t size, uint32_t n);
// A buffer that stands for a whole tensor of n elements: raises where it is no such one. Then part of it into part of
// the tensor, t with its data and bytes, from element `at` on. Both allocate nothing.
void mp_mica_values_check(const mica_tensor_t *t, mp_obj_t buffer, uint32_t n);
void mp_mica_values_store_part(const mica_tensor_t *t, mp_obj_t buffer, uint32_t n, uint32_t at);
// The floats that bytes of one scale and zero point become, null before they are asked for.
typedef struct {
    float scale;
    int32_t zero_point;
    mp_obj_t made[256];
} mp_mica_floats_t;
mp_obj_t mp_mica_values_load(const mica_tensor_t *t, mp_mica_floats_t **kept); // kept: of long tensors of bytes
void mp_mica_values_load_into(const mica_tensor_t *t, mp_obj_t buffer); // allocates nothing

// raw.c: kernels on any buffers
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_run_kernel_obj);

// text.c
NORETURN void mp_mica_raise(const mica_error_t *err, const void *base, size_t len); // the one place
mp_obj_t mp_mica_new_str(const char *s, size_t max); // text from a file: bounded, and ASCII where it is not UTF-8

#endif

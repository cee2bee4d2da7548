// _mica.Arena: memory for activations, which models share by running in turn, and the flag that says who is running.

#include <string.h>

#include "py/binary.h"
#include "py/mphal.h"
#include "py/objarray.h"

#include "model.h"

#define CONTROL_MAGIC (0x4143494d)
// Words behind an arena of ours, and before the static one: what writes past its end damages them first. A caller's
// buffer has none, and a block of the heap none before it, because memoryview(arena) has to be the head of the block.
#define GUARD_WORDS (4)
#define GUARD_BYTES (4 * GUARD_WORDS)
#define GUARDED(bytes) (((bytes) + 3) & ~(size_t)3)
#define GUARD (0x6d5ac3a7)
#if MICROPY_ENABLE_DYNRUNTIME
#define GUARDED_BEFORE(arena) (false) // in a native module the static arena is a block of the heap, too
#else
#define GUARDED_BEFORE(arena) ((arena) == &mp_mica_arena_static)
#endif

#define ROUND_UP(p) (((uintptr_t)(p) + MICA_ALIGN - 1) & ~(uintptr_t)(MICA_ALIGN - 1))

#if MICA_ARENA_BYTES > 0 && !MICROPY_ENABLE_DYNRUNTIME
static uint8_t static_memory[GUARD_BYTES + GUARDED(MICA_ARENA_BYTES) + GUARD_BYTES]
    __attribute__((aligned(MICA_ALIGN)));
#define STATIC_MEMORY (static_memory + GUARD_BYTES)
#else
#define STATIC_MEMORY NULL
#endif

// Holds no pointer into the heap, so a soft reset, which clears the heap but not .bss, leaves nothing dangling in it.
#if MICROPY_ENABLE_DYNRUNTIME
// A native module's is a block of the heap, from the first model on that fits (natmod/native.c).
mp_mica_arena_t mp_mica_arena_static;

bool mp_mica_arena_static_ready(void) {
    if (mp_mica_arena_static.memory == NULL) {
        mp_mica_arena_static.memory = m_malloc_maybe(GUARDED(MICA_ARENA_BYTES) + GUARD_BYTES);
        mp_mica_arena_arm(&mp_mica_arena_static);
    }
    return mp_mica_arena_static.memory != NULL;
}
#else
mp_mica_arena_t mp_mica_arena_static = {
    .base = { &mp_mica_arena_type },
    .source = MP_OBJ_NULL,
    .memory = STATIC_MEMORY,
    .bytes = MICA_ARENA_BYTES,
};

bool mp_mica_arena_static_ready(void) {
    return true;
}
#endif

// Counts on over soft resets: an id that was left in somebody's memory must not be given out again.
uint32_t mp_mica_arena_last_id; // variables of a native module cannot be static

uint32_t mp_mica_arena_new_id(void) {
    mp_uint_t state = MICROPY_BEGIN_ATOMIC_SECTION();
    if (++mp_mica_arena_last_id == 0) {
        mp_mica_arena_last_id = 1;
    }
    uint32_t id = mp_mica_arena_last_id;
    MICROPY_END_ATOMIC_SECTION(state);
    return id;
}

mp_mica_arena_t *mp_mica_arena_new(size_t bytes) {
    // memoryview(arena) keeps only the address it is given, so that must be the head of the block: no rounding up here.
    MP_STATIC_ASSERT(MICROPY_BYTES_PER_GC_BLOCK % MICA_ALIGN == 0);
    mp_mica_arena_t *self = mp_obj_malloc(mp_mica_arena_t, &mp_mica_arena_type);
    self->source = MP_OBJ_NULL;
    self->memory = NULL;
    self->bytes = bytes;
    memset(&self->control, 0, sizeof(self->control));
    self->memory = m_malloc_maybe(GUARDED(bytes) + GUARD_BYTES);
    if (self->memory == NULL) {
        return NULL;
    }
    mp_mica_arena_arm(self);
    return self;
}

static uint32_t *guard_behind(const mp_mica_arena_t *self) {
    return (uint32_t *)(void *)((uint8_t *)self->memory + GUARDED(self->bytes));
}

static bool guarded(const mp_mica_arena_t *self) {
    return self->source == MP_OBJ_NULL && self->memory != NULL && self->bytes != 0;
}

void mp_mica_arena_arm(mp_mica_arena_t *self) {
    if (!guarded(self)) {
        return;
    }
    uint32_t *behind = guard_behind(self);
    for (size_t i = 0; i < GUARD_WORDS; i++) {
        behind[i] = GUARD;
        if (GUARDED_BEFORE(self)) {
            ((uint32_t *)self->memory)[-1 - (int)i] = GUARD;
        }
    }
}

bool mp_mica_arena_intact(const mp_mica_arena_t *self) {
    if (!guarded(self)) {
        return true;
    }
    const uint32_t *behind = guard_behind(self);
    uint32_t damage = 0;
    for (size_t i = 0; i < GUARD_WORDS; i++) {
        damage |= behind[i] ^ GUARD;
        if (GUARDED_BEFORE(self)) {
            damage |= ((const uint32_t *)self->memory)[-1 - (int)i] ^ GUARD;
        }
    }
    return damage == 0;
}

// Element types that any bytes may be written to: in an array('O') they would be taken for objects.
static bool plain_typecode(int typecode) {
    return typecode == BYTEARRAY_TYPECODE || (typecode > 0 && strchr("bBhHiIlLqQfd", typecode) != NULL);
}

mp_mica_arena_t *mp_mica_arena_from_obj(mp_obj_t obj) {
    if (mp_obj_is_type(obj, &mp_mica_arena_type)) {
        return MP_OBJ_TO_PTR(obj);
    }
    // Only objects that own their memory and can be asked where it is now. A memoryview cannot: after its bytearray was
    // extended it still points at the old, freed block.
    if (!mp_obj_is_type(obj, &mp_type_bytearray) && !mp_obj_is_type(obj, &mp_type_array)) {
        mp_raise_TypeError(MP_ERROR_TEXT("arena: give a bytearray, an array or a _mica.Arena"));
    }
    mp_obj_array_t *array = MP_OBJ_TO_PTR(obj);
    if (!plain_typecode(array->typecode)) {
        mp_raise_TypeError(MP_ERROR_TEXT("arena: an array of numbers is expected"));
    }
    mp_mica_arena_t *self = mp_obj_malloc(mp_mica_arena_t, &mp_mica_arena_type);
    self->source = obj;
    self->memory = NULL;
    self->bytes = 0;
    memset(&self->control, 0, sizeof(self->control));
    return self;
}

void mp_mica_arena_span(const mp_mica_arena_t *self, mp_mica_span_t *span) {
    if (self->source == MP_OBJ_NULL) {
        span->head = self->memory;
        span->data = self->memory;
        span->bytes = self->bytes;
        span->control = (mp_mica_control_t *)&self->control;
        return;
    }
    const mp_obj_array_t *array = MP_OBJ_TO_PTR(self->source);
    size_t bytes = array->len * mp_binary_get_size('@', array->typecode, NULL);
    uintptr_t start = (uintptr_t)array->items;
    uintptr_t control = ROUND_UP(start);
    size_t used = control - start + sizeof(mp_mica_control_t);
    span->head = array->items;
    span->data = NULL;
    span->bytes = 0;
    span->control = NULL;
    if (array->items != NULL && bytes >= used) {
        span->control = (mp_mica_control_t *)control;
        span->data = (uint8_t *)control + sizeof(mp_mica_control_t);
        span->bytes = bytes - used;
    }
}

bool mp_mica_arena_take(const mp_mica_span_t *span, uint32_t id) {
    mp_mica_control_t *c = span->control;
    // Threads of RP2 share no lock, and a hard interrupt may come between any two instructions.
    mp_uint_t state = MICROPY_BEGIN_ATOMIC_SECTION();
    bool taken = c->magic != CONTROL_MAGIC || c->busy == 0;
    if (taken) {
        c->magic = CONTROL_MAGIC;
        c->busy = id;
        c->owner = id;
    }
    MICROPY_END_ATOMIC_SECTION(state);
    return taken;
}

void mp_mica_arena_release(const mp_mica_span_t *span, uint32_t id) {
    mp_mica_control_t *c = span->control;
    if (c != NULL && c->magic == CONTROL_MAGIC && c->busy == id) {
        c->busy = 0;
    }
}

uint32_t mp_mica_arena_owner(const mp_mica_span_t *span) {
    return span->control->magic == CONTROL_MAGIC ? span->control->owner : 0;
}

// Arena(nbytes): own memory that never moves. Arena(buffer): what load(arena=buffer) makes by itself.
static mp_obj_t arena_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw, const mp_obj_t *args) {
    (void)type;
    mp_arg_check_num(n_args, n_kw, 1, 1, false);
    if (!mp_obj_is_int(args[0])) {
        return MP_OBJ_FROM_PTR(mp_mica_arena_from_obj(args[0]));
    }
    mp_int_t bytes = mp_obj_get_int(args[0]);
    if (bytes <= 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("arena: a size above 0 is expected"));
    }
    mp_mica_arena_t *self = mp_mica_arena_new((size_t)bytes);
    if (self == NULL) {
        mp_raise_msg_varg(&mp_type_MemoryError, MP_ERROR_TEXT("arena: no free block of %u bytes"), (unsigned)bytes);
    }
    return MP_OBJ_FROM_PTR(self);
}

static void arena_print(const mp_print_t *print, mp_obj_t self_in, mp_print_kind_t kind) {
    (void)kind;
    mp_mica_span_t span;
    mp_mica_arena_span(MP_OBJ_TO_PTR(self_in), &span);
    mp_printf(print, "<Arena of %u bytes>", (unsigned)span.bytes);
}

static mp_obj_t arena_unary_op(mp_unary_op_t op, mp_obj_t self_in) {
    mp_mica_span_t span;
    mp_mica_arena_span(MP_OBJ_TO_PTR(self_in), &span);
    switch (op) {
        case MP_UNARY_OP_BOOL:
            return mp_const_true;
        case MP_UNARY_OP_LEN:
            return mp_obj_new_int_from_uint(span.bytes);
        default:
            return MP_OBJ_NULL;
    }
}

static void arena_attr(mp_obj_t self_in, qstr attr, mp_obj_t *dest) {
    if (dest[0] != MP_OBJ_NULL || (attr != MP_QSTR_busy && attr != MP_QSTR_intact)) {
        return;
    }
    if (attr == MP_QSTR_intact) {
        dest[0] = mp_obj_new_bool(mp_mica_arena_intact(MP_OBJ_TO_PTR(self_in)));
        return;
    }
    mp_mica_span_t span;
    mp_mica_arena_span(MP_OBJ_TO_PTR(self_in), &span);
    dest[0] = mp_obj_new_bool(span.control != NULL && span.control->magic == CONTROL_MAGIC && span.control->busy != 0);
}

// Read and write: the arena of a camera's frame, or a file that was received into memory which never moves.
static mp_int_t arena_get_buffer(mp_obj_t self_in, mp_buffer_info_t *bufinfo, mp_uint_t flags) {
    (void)flags;
    mp_mica_arena_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->source != MP_OBJ_NULL || self->memory == NULL) {
        return 1; // a view would have to begin inside the caller's block; the caller has the buffer anyway
    }
    bufinfo->buf = self->memory;
    bufinfo->len = self->bytes;
    bufinfo->typecode = BYTEARRAY_TYPECODE;
    return 0;
}

MP_DEFINE_CONST_OBJ_TYPE(
    mp_mica_arena_type,
    MP_QSTR_Arena,
    MP_TYPE_FLAG_NONE,
    make_new, arena_make_new,
    print, arena_print,
    unary_op, arena_unary_op,
    attr, arena_attr,
    buffer, arena_get_buffer
    );

// ---- The arena of a model ----

uint32_t mp_mica_scratch_of(const mica_info_t *info) {
    return MAX(info->scratch_min, MIN(info->scratch_want, MICA_SCRATCH_BYTES));
}

#if MICA_SHARES_ARENA
// A model whose tensors lie in the static arena is its tenant. A larger one may use it as scratch, and have the least
// in its own. A tenant must find its input as it was left, so a run takes the static arena only while there is none.
// Later models rather take a block of their own.
enum { TENANT = 1, BORROWER = 2 };
static volatile uint16_t stay[3]; // how many there are of each

static void go(mp_mica_model_t *self, uint8_t to) {
    mp_uint_t state = MICROPY_BEGIN_ATOMIC_SECTION();
    --stay[self->stays];
    ++stay[to];
    self->stays = to;
    MICROPY_END_ATOMIC_SECTION(state);
}

static bool may_borrow(const mica_info_t *info) {
    const uint32_t scratch = mp_mica_scratch_of(info);
    return stay[TENANT] == 0 && scratch > info->scratch_min && scratch <= MICA_ARENA_BYTES
           && (uint64_t)info->arena_bytes + scratch > MICA_ARENA_BYTES;
}

void mp_mica_leave_arena(mp_mica_model_t *self) {
    mp_mica_span_t span;
    mp_mica_arena_span(&mp_mica_arena_static, &span);
    if (self->stays != 0) {
        mp_mica_arena_release(&span, self->id);
    }
    go(self, 0);
}

void mp_mica_borrow_arena(mp_mica_model_t *self) {
    mp_mica_span_t span;
    mp_mica_arena_span(&mp_mica_arena_static, &span);
    if (self->stays == BORROWER && stay[TENANT] == 0 && mp_mica_arena_intact(&mp_mica_arena_static)
        && mp_mica_arena_take(&span, self->id)) {
        mica_set_scratch(self->engine, span.data, span.bytes);
    }
}

void mp_mica_give_back(mp_mica_model_t *self) {
    mp_mica_span_t span;
    mp_mica_arena_span(&mp_mica_arena_static, &span);
    if (self->stays == BORROWER && span.control->busy == self->id) {
        const uint32_t used = mica_model_info(self->engine)->arena_bytes;
        mica_set_scratch(self->engine, self->arena_data + used, self->arena_bytes - used);
        mp_mica_arena_release(&span, self->id);
    }
}
#define VACANT (stay[BORROWER] == 0)
#else
#define go(self, to) ((void)(self))
#define may_borrow(info) (false)
#define VACANT (true)
#endif

void mp_mica_arena_reset(void) {
    memset(&mp_mica_arena_static.control, 0, sizeof(mp_mica_arena_static.control));
    mp_mica_arena_arm(&mp_mica_arena_static);
    #if MICA_SHARES_ARENA
    memset((void *)stay, 0, sizeof(stay));
    #endif
}

static mp_mica_arena_t *arena_for(mp_mica_model_t *self, const mica_info_t *info) {
    const uint64_t least = (uint64_t)info->arena_bytes + info->scratch_min;
    uint64_t most = (uint64_t)info->arena_bytes + mp_mica_scratch_of(info);
    // Without the scratch it wants a model still runs, several times slower: rather take a block of the heap for it.
    if (most <= MICA_ARENA_BYTES && VACANT && mp_mica_arena_static_ready()) {
        return &mp_mica_arena_static;
    }
    if (may_borrow(info)) {
        go(self, BORROWER);
        most = least;
    }
    mp_mica_arena_t *arena = most <= SIZE_MAX / 2 ? mp_mica_arena_new((size_t)most) : NULL;
    if (arena == NULL && least <= MICA_ARENA_BYTES && mp_mica_arena_static_ready()) {
        return &mp_mica_arena_static;
    }
    if (arena == NULL && least <= SIZE_MAX / 2) {
        arena = mp_mica_arena_new((size_t)least);
    }
    if (arena == NULL) {
        mp_raise_msg_varg(&mp_type_MemoryError,
            MP_ERROR_TEXT("its tensors and scratch take %u bytes, more than the static arena's %u"),
            (unsigned)least, (unsigned)MICA_ARENA_BYTES);
    }
    return arena;
}

void mp_mica_take_arena(mp_mica_model_t *self, mp_obj_t obj, const mica_info_t *info) {
    self->arena = obj != mp_const_none ? mp_mica_arena_from_obj(obj) : arena_for(self, info);
    if (self->arena == &mp_mica_arena_static) {
        go(self, TENANT);
    }
}

// What CBMC takes in the place of a file where it proves operators' loaders. A step's record says any numbers, and any
// lengths of constants (load_param, load_blob); tensors have any shape that mica_read_tensor accepts (read_tensor).
// Products and quotients are one number for the same operands: cbmc.py puts times() and divided() into the sources.
#include "any.h"

#define MOST_NUMBERS 20

typedef struct {
    int64_t at[MOST_NUMBERS];  // of a kernel, all that its check looks at
} numbers_t;

static numbers_t accepted;  // by the kernel's check
static bool checked, constants;
static int32_t params[MICA_MAX_PARAMS];
static const void *places[MICA_MAX_BLOBS];
static size_t lengths[MICA_MAX_BLOBS];
static uint32_t scratch_asked = 1, sized;  // sized: what a kernel's function said last

uint32_t __CPROVER_uninterpreted_times(uint32_t a, uint32_t b);
uint32_t __CPROVER_uninterpreted_divided(uint32_t a, uint32_t b);

static uint32_t times(uint32_t a, uint32_t b) {
    const uint32_t product = __CPROVER_uninterpreted_times(a, b);
    __CPROVER_assume(product != 0 || a > MICA_MAX_DIM || b > MICA_MAX_DIM);
    return a == 0 || b == 0 ? 0 : a == 1 ? b : b == 1 ? a : product;
}

static uint32_t divided(uint32_t a, uint32_t b) {
    __CPROVER_assert(b != 0, "a divisor");
    return __CPROVER_uninterpreted_divided(a, b);
}

// A parameter as the record has it.
static int32_t some_number(uint32_t i) {
    __CPROVER_assert(i < MICA_MAX_PARAMS, "a parameter's place");
    return params[i] = (int32_t)nondet_u32();
}

static uint32_t some_length(uint32_t i) {
    __CPROVER_assert(i < MICA_MAX_BLOBS, "a constant's place");
    return nondet_u32();
}

// A constant that mica_load_blob has accepted.
static const void *some_constant(uint32_t i, size_t bytes) {
    const void *place = malloc(bytes);
    __CPROVER_assume(place != NULL);
    lengths[i] = bytes;
    return places[i] = place;
}

static uint32_t some_scratch(uint32_t least) {
    scratch_asked = least;
    return nondet_u32();
}

#include "record.c"

// Tensors as mica_read_tensor leaves them: every dimension is 1 or more, and 1 behind the rank.
static mica_step_record_t any_operands(mica_error_t *err) {
    mica_step_record_t r;  // any
    mica_tensor_t *all[] = { &r.x[0], &r.x[1], &r.x[2], &r.x[3], &r.y };
    static mica_model_t m;
    m.file.s[MICA_KIND_DATA].bytes = nondet_u32();
    r.m = &m;
    r.blobs = NULL;
    r.err = err;
    __CPROVER_assume(r.n_inputs >= 1 && r.n_inputs <= MICA_MAX_INPUTS);
    for (uint32_t k = 0; k <= MICA_MAX_INPUTS; ++k) {
        mica_tensor_t *t = all[k];
        __CPROVER_assume(t->rank <= MICA_MAX_RANK && t->bytes >= 1 && t->bytes <= MICA_MAX_BYTES);
        for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
            __CPROVER_assume(t->dims[i] >= 1 && t->dims[i] <= MICA_MAX_DIM && (i < t->rank || t->dims[i] == 1));
        }
    }
    err->status = MICA_OK;
    return r;
}

static bool same(numbers_t a) {
    bool equal = checked;
    for (uint32_t i = 0; i < MOST_NUMBERS; ++i) {
        equal = equal && a.at[i] == accepted.at[i];
    }
    return equal;
}

// A function of a kernel that says a size, of shapes that were accepted.
static uint32_t some_size(numbers_t a) {
    __CPROVER_assert(same(a), "a size of shapes that were accepted");
    return sized = nondet_u32();
}

// --- what is claimed of a kernel's parameters

// A constant lies where the kernel looks for it, and has n bytes.
#define HAS(field, NAME, n) ((const void *)p->field == places[MICA_##NAME] && lengths[MICA_##NAME] == (n))
#define ONE(p) ((const void *)(p)->x == r.x[0].data && (void *)(p)->y == r.y.data)

static uint32_t product(const mica_tensor_t *t, uint32_t begin, uint32_t end) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        n = i >= begin && i < end ? times(n, t->dims[i]) : n;
    }
    return n;
}

static uint32_t last(const mica_tensor_t *t) {
    return t->dims[t->rank - 1];
}

// Shapes are the same, but for one axis.
static bool alike(const mica_tensor_t *a, const mica_tensor_t *b, uint32_t axis) {
    bool equal = a->rank == b->rank;
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        equal = equal && (i == axis || a->dims[i] == b->dims[i]);
    }
    return equal;
}

// All dimensions before the last `inner` are 1.
static bool ones(const mica_tensor_t *t, uint32_t inner) {
    bool found = t->rank >= inner;
    for (uint32_t i = 0; i < MICA_MAX_RANK; ++i) {
        found = found && (i + inner >= t->rank || t->dims[i] == 1);
    }
    return found;
}

// Two inputs that broadcast.
static const mica_step_record_t *record;  // of which shapes were broadcast
static const mica_broadcast_t *broadcast;

mica_status_t mica_broadcast_shapes(mica_broadcast_t *p, const uint32_t *a_dims, uint32_t a_rank,
    const uint32_t *b_dims, uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what) {
    mica_broadcast_t shape;  // any
    (void)what;
    *p = shape;
    const mica_tensor_t *a = (const mica_tensor_t *)((const uint8_t *)a_dims - offsetof(mica_tensor_t, dims));
    record = (const mica_step_record_t *)((const uint8_t *)a - offsetof(mica_step_record_t, x));
    __CPROVER_assert(a_rank == a->rank && b_dims == record->x[1].dims && b_rank == record->x[1].rank
        && y_dims == record->y.dims && y_rank == record->y.rank, "shapes of the operands");
    broadcast = nondet_bool() ? p : NULL;
    return broadcast != NULL ? MICA_OK : MICA_ERR_SHAPE;
}

#define BROADCAST (broadcast == &p->shape && record == &r && TWO)
#define TWO ((const void *)p->a == r.x[0].data && (const void *)p->b == r.x[1].data && (void *)p->y == r.y.data)
#define SHAPE(s) \
    (s).rank, (s).a_moves, (s).b_moves, (s).n[0], (s).n[1], (s).n[2], (s).n[3], (s).n[4], (s).n[5]
#define CLAMP p->act_min, p->act_max

// --- proofs

// A kernel's check; `holds` is claimed where its loader ends well.
#define KERNEL(op, name, holds, ...) CHECKS(op, name, __VA_ARGS__) PROOF(op, name, holds, )
#define CHECKS(op, name, ...) \
    static numbers_t numbers_##op(const mica_##name##_t *p) { \
        return (numbers_t) { { __VA_ARGS__ } }; \
    } \
    mica_status_t mica_##name##_check(const mica_##name##_t *p, const char **what) { \
        (void)what; \
        accepted = numbers_##op(p); \
        checked = nondet_bool(); \
        return checked ? MICA_OK : MICA_ERR_SHAPE; \
    } \
    mica_status_t mica_##name##_check_constants(const mica_##name##_t *p, const char **what) { \
        (void)what; \
        __CPROVER_assert(same(numbers_##op(p)), "constants of shapes that were accepted"); \
        constants = nondet_bool(); \
        return constants ? MICA_OK : MICA_ERR_RANGE; \
    }
#define PROOF(op, name, holds, begins) \
    void prove_##op(void) { \
        mica_error_t err; \
        mica_##name##_t parameters begins, *p = &parameters; \
        mica_step_record_t r = any_operands(&err); \
        load_##op(&r, p); \
        if (err.status == MICA_OK) { \
            __CPROVER_assert(same(numbers_##op(p)), "shapes are accepted"); \
            __CPROVER_assert(holds, "tensors and constants"); \
        } \
    }
// A function that says a size.
#define SIZE(op, name, suffix, type) \
    type mica_##name##_##suffix(const mica_##name##_t *p) { \
        return some_size(numbers_##op(p)); \
    }

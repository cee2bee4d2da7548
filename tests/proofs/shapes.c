// What CBMC proves of shapes that broadcast: kernels/broadcast.c, whose products cbmc.py replaces by contracts.
#include "any.h"

static uint32_t group[MICA_MAX_RANK];  // of y's dimension i: where it went in p->n; NONE where it is 1
#define NONE 9

static uint64_t before, after;  // elements of y, up to the dimension that is looked at
static uint32_t factor;

// Elements so far, and those with n more of them: no overflow, so it is not less than either.
static uint64_t some_elements(uint64_t elements, uint32_t n) {
    __CPROVER_assert(elements >= 1 && elements <= MICA_MAX_BYTES && n >= 1 && n <= MICA_MAX_DIM, "factors");
    before = elements;
    after = nondet_u64();
    factor = n;
    __CPROVER_assume(after >= elements && after >= n && after <= (uint64_t)MICA_MAX_BYTES * MICA_MAX_DIM);
    return after;
}

// A dimension that is merged with the one before: a part of y's elements, so its product is not above theirs.
static uint32_t some_merged(const mica_broadcast_t *p, uint32_t i, uint32_t n) {
    const uint32_t merged = nondet_u32();
    __CPROVER_assert(p->rank >= 1 && p->n[p->rank - 1] <= before && n == factor, "a part of y");
    __CPROVER_assume(merged >= n && merged >= p->n[p->rank - 1] && merged <= after);
    group[i] = p->rank - 1u;
    return merged;
}

// offset += digit * stride, where digit < n: below the next stride, n * stride.
static uint32_t next_stride;
static uint32_t some_offset(uint32_t offset, uint32_t digit, uint32_t stride, uint32_t n) {
    const uint32_t found = nondet_u32();
    __CPROVER_assert(offset < stride && digit < n, "a digit");
    next_stride = nondet_u32();
    __CPROVER_assume(next_stride >= stride && found >= offset && found < next_stride);
    return found;
}

#include "broadcast.c"

// Every dimension of y is in one place of p->n, and an input has it there exactly if it has it at all: the products of
// p->n where an input moves are its elements. Neighbours stay in their order.
void prove_broadcast(void) {
    uint32_t a[MICA_MAX_RANK], b[MICA_MAX_RANK], y[MICA_MAX_RANK];
    const uint32_t a_rank = up_to(MICA_MAX_RANK), b_rank = up_to(MICA_MAX_RANK), rank = up_to(MICA_MAX_RANK);
    const uint32_t i = up_to(MICA_MAX_RANK - 1), k = up_to(MICA_MAX_RANK - 1);
    mica_broadcast_t p;
    const char *what;
    for (uint32_t j = 0; j < MICA_MAX_RANK; ++j) {
        group[j] = NONE;
    }
    if (mica_broadcast_shapes(&p, a, a_rank, b, b_rank, y, rank, &what) != MICA_OK) {
        return;
    }
    __CPROVER_assert(p.rank >= 1 && p.rank <= MICA_MAX_RANK && a_rank <= rank && b_rank <= rank, "rank");
    bool filled = false, all_ones = true;
    for (uint32_t j = 0; j < rank; ++j) {
        filled = filled || group[j] == i;
        all_ones = all_ones && y[j] == 1;
    }
    __CPROVER_assert(i >= p.rank || filled || (all_ones && p.rank == 1 && p.n[0] == 1), "a place has a dimension");
    __CPROVER_assert(i >= p.rank || (p.n[i] >= 1 && p.n[i] <= MICA_MAX_BYTES), "a product");
    if (i < rank) {
        const uint32_t of_a = i + a_rank < rank ? 1 : a[i + a_rank - rank];
        const uint32_t of_b = i + b_rank < rank ? 1 : b[i + b_rank - rank];
        __CPROVER_assert(y[i] == 1 ? of_a == 1 && of_b == 1 && group[i] == NONE : group[i] < p.rank, "its place");
        __CPROVER_assert(y[i] == 1 || of_a == (p.a_moves >> group[i] & 1 ? y[i] : 1), "a");
        __CPROVER_assert(y[i] == 1 || of_b == (p.b_moves >> group[i] & 1 ? y[i] : 1), "b");
        __CPROVER_assert(k <= i || k >= rank || y[k] == 1 || y[i] == 1 || group[i] <= group[k], "their order");
    }
}

// An element of an input lies inside it: below the product of the dimensions along which it moves. The first and the
// last of a run differ in the innermost digit alone.
void prove_offset(void) {
    mica_broadcast_t p;
    __CPROVER_assume(p.rank >= 1 && p.rank <= MICA_MAX_RANK);
    for (uint32_t j = 0; j < MICA_MAX_RANK; ++j) {
        __CPROVER_assume(p.n[j] >= 1);
    }
    next_stride = 1;
    const uint32_t offset = offset_of(&p, nondet_u32(), nondet_u32());
    __CPROVER_assert(offset < next_stride, "inside");
}

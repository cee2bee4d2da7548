// mica: how the kernels of two inputs walk through them. The shapes: mica_broadcast_t in mica_kernels.h.
#ifndef MICA_BROADCAST_H
#define MICA_BROADCAST_H

#include "mica_kernels.h"

// Elements of y from `at` up to `end` along which each input moves by its step: how many, and where the inputs stand.
uint32_t mica_broadcast_run(const mica_broadcast_t *p, uint32_t at, uint32_t end, uint32_t *a, uint32_t *b);

// The steps: 1, or 0 where the input repeats along the innermost dimension.
static inline int32_t mica_broadcast_a_step(const mica_broadcast_t *p) {
    return p->a_moves >> (p->rank - 1) & 1;
}

static inline int32_t mica_broadcast_b_step(const mica_broadcast_t *p) {
    return p->b_moves >> (p->rank - 1) & 1;
}

#endif

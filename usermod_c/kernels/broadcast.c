// numpy broadcasting of two inputs; contract in mica_kernels.h.
#include "broadcast.h"

// Dimension i of a tensor that is aligned to the right of one with rank y_rank.
static uint32_t right_aligned(const uint32_t *dims, uint32_t rank, uint32_t y_rank, uint32_t i) {
    return i + rank < y_rank ? 1 : dims[i + rank - y_rank];
}

mica_status_t mica_broadcast_shapes(mica_broadcast_t *p, const uint32_t *a_dims, uint32_t a_rank,
    const uint32_t *b_dims, uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what) {
    *what = "the inputs do not broadcast to the output";
    if (y_rank > MICA_MAX_RANK || y_rank != (a_rank > b_rank ? a_rank : b_rank)) {
        return MICA_ERR_SHAPE;
    }
    p->rank = 0;
    p->a_moves = p->b_moves = 0;
    int32_t last = -1;  // how the inputs move along the dimension before: bit 0 a, bit 1 b
    uint64_t elements = 1;
    for (uint32_t i = 0; i < y_rank; ++i) {
        uint32_t a = right_aligned(a_dims, a_rank, y_rank, i), b = right_aligned(b_dims, b_rank, y_rank, i);
        uint32_t n = y_dims[i];
        if (n == 0 || n > MICA_MAX_DIM || (a != n && a != 1) || (b != n && b != 1) || (a != n && b != n)) {
            return MICA_ERR_SHAPE;
        }
        elements *= n;
        if (elements > MICA_MAX_BYTES) {
            *what = "the output is too large";
            return MICA_ERR_SHAPE;
        }
        if (n == 1) {
            continue;
        }
        int32_t moves = (a == n ? 1 : 0) | (b == n ? 2 : 0);
        if (moves == last) {
            p->n[p->rank - 1] *= n;
        } else {
            p->a_moves = (uint8_t)(p->a_moves | (moves & 1) << p->rank);
            p->b_moves = (uint8_t)(p->b_moves | moves >> 1 << p->rank);
            p->n[p->rank++] = n;
        }
        last = moves;
    }
    if (p->rank == 0) {
        p->n[p->rank++] = 1;
    }
    return MICA_OK;
}

mica_status_t mica_broadcast_check(const mica_broadcast_t *p, const char **what) {
    uint64_t elements = 1;
    *what = "call mica_broadcast_shapes first";
    if (p->rank == 0 || p->rank > MICA_MAX_RANK) {
        return MICA_ERR_SHAPE;
    }
    for (uint32_t i = 0; i < p->rank; ++i) {
        elements *= p->n[i];
        if (elements == 0 || elements > MICA_MAX_BYTES) {
            return MICA_ERR_SHAPE;
        }
    }
    return MICA_OK;
}

// Elements of a tensor that moves along the dimensions in `moves`.
static uint32_t elements_of(const mica_broadcast_t *p, uint32_t moves) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->rank; ++i) {
        n *= moves >> i & 1 ? p->n[i] : 1;
    }
    return n;
}

uint32_t mica_broadcast_a_size(const mica_broadcast_t *p) {
    return elements_of(p, p->a_moves);
}

uint32_t mica_broadcast_b_size(const mica_broadcast_t *p) {
    return elements_of(p, p->b_moves);
}

uint32_t mica_broadcast_y_size(const mica_broadcast_t *p) {
    return elements_of(p, UINT32_MAX);
}

// Offset, in an input that moves along `moves`, of y's element `at`.
static uint32_t offset_of(const mica_broadcast_t *p, uint32_t moves, uint32_t at) {
    uint32_t offset = 0, stride = 1;
    for (uint32_t i = p->rank; i-- > 0; at /= p->n[i]) {
        if (moves >> i & 1) {
            offset += at % p->n[i] * stride;
            stride *= p->n[i];
        }
    }
    return offset;
}

uint32_t mica_broadcast_run(const mica_broadcast_t *p, uint32_t at, uint32_t end, uint32_t *a, uint32_t *b) {
    uint32_t inner = p->n[p->rank - 1], n = inner - at % inner;
    *a = offset_of(p, p->a_moves, at);
    *b = offset_of(p, p->b_moves, at);
    return n < end - at ? n : end - at;
}

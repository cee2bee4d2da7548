// Matrix product of two tensors; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_MATMUL_S8

#include "broadcast.h"
#include "requant.h"
#include "shape.h"

#define MOST_K 33025u  // 255 * 255 * K < 2^31

mica_status_t mica_matmul_s8_shapes(mica_matmul_s8_t *p, const uint32_t *a_dims, uint32_t a_rank,
    const uint32_t *b_dims, uint32_t b_rank, const uint32_t *y_dims, uint32_t y_rank, const char **what) {
    *what = "the inputs want two dimensions at least";
    if (a_rank < 2 || b_rank < 2 || y_rank < 2) {
        return MICA_ERR_SHAPE;
    }
    const uint32_t *a = a_dims + a_rank - 2, *b = b_dims + b_rank - 2, *y = y_dims + y_rank - 2;
    *what = "the matrices do not fit each other";
    if (y[0] == 0 || y[0] > MICA_MAX_DIM || y[1] == 0 || y[1] > MICA_MAX_DIM || a[1] > MICA_MAX_DIM || a[0] != y[0]
        || b[p->transpose_b ? 0 : 1] != y[1] || b[p->transpose_b ? 1 : 0] != a[1]) {
        return MICA_ERR_SHAPE;
    }
    p->m = (uint16_t)y[0];
    p->k = (uint16_t)a[1];
    p->n = (uint16_t)y[1];
    return mica_broadcast_shapes(&p->batch, a_dims, a_rank - 2, b_dims, b_rank - 2, y_dims, y_rank - 2, what);
}

mica_status_t mica_matmul_s8_check(const mica_matmul_s8_t *p, const char **what) {
    mica_status_t status = mica_broadcast_check(&p->batch, what);
    if (status != MICA_OK) {
        return status;
    }
    uint64_t a = (uint64_t)p->m * p->k, b = (uint64_t)p->n * p->k, y = (uint64_t)p->m * p->n;
    if (a == 0 || b == 0 || a * mica_broadcast_a_size(&p->batch) > MICA_MAX_BYTES
        || b * mica_broadcast_b_size(&p->batch) > MICA_MAX_BYTES
        || y * mica_broadcast_y_size(&p->batch) > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or a tensor too large";
        return MICA_ERR_SHAPE;
    }
    if (p->k > MOST_K) {
        *what = "the sums can overflow: more than 33025 products";
        return MICA_ERR_RANGE;
    }
    status = mica_requant_check(&p->mult, &p->shift, 1, what);
    return status != MICA_OK ? status : mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_matmul_s8_rows(const mica_matmul_s8_t *p) {
    return mica_broadcast_y_size(&p->batch) * p->m;
}

void mica_matmul_s8_ref(const mica_matmul_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    uint32_t m = p->m, k = p->k, n = p->n;
    uint32_t next = p->transpose_b ? 1 : n, column = p->transpose_b ? k : 1;  // steps in b: down, to the next column
    int32_t a_zero = p->a_zero, b_zero = p->b_zero;
    int8_t *y = p->y + (size_t)row_begin * n;

    for (uint32_t row = row_begin; row < row_end; ++row) {
        uint32_t a_at, b_at;
        mica_broadcast_run(&p->batch, row / m, row / m + 1, &a_at, &b_at);
        const int8_t *a_row = p->a + ((size_t)a_at * m + row % m) * k, *b_first = p->b + (size_t)b_at * k * n;
        for (uint32_t j = 0; j < n; ++j, b_first += column) {
            int32_t acc = 0;
            const int8_t *b = b_first;
            for (const int8_t *a = a_row, *end = a_row + k; a != end; ++a, b += next) {
                acc += (*a - a_zero) * (*b - b_zero);
            }
            *y++ = mica_requant_s8(acc, p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

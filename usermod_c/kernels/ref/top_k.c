// Where the k largest or smallest elements of an axis are, in order; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_TOP_K_S8

#include "shape.h"

mica_status_t mica_top_k_s8_check(const mica_top_k_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->outer || !p->n || !p->inner || !p->k || p->outer > MICA_MAX_BYTES || p->inner > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    uint64_t one = (uint64_t)p->outer * p->inner;  // below 2^62; a dimension more could pass 2^64
    if (one > MICA_MAX_BYTES || one * p->n > MICA_MAX_BYTES || one * p->k > MICA_MAX_BYTES / 4) {
        return MICA_ERR_SHAPE;
    }
    *what = "more places than elements";
    return p->k <= p->n ? MICA_OK : MICA_ERR_SHAPE;
}

uint32_t mica_top_k_s8_rows(const mica_top_k_s8_t *p) {
    return p->outer;
}

// The places found so far stand in y, the best first. An element goes in front of all that it beats; of equal ones the
// first comes first.
void mica_top_k_s8_ref(const mica_top_k_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const size_t inner = p->inner;
    const int32_t sign = p->smallest ? -1 : 1;
    for (size_t column = row_begin * inner; column < row_end * inner; ++column) {
        const int8_t *x = p->x + column / inner * p->n * inner + column % inner;
        int32_t *y = p->y + column / inner * p->k * inner + column % inner;
        uint32_t found = 0;
        int32_t least = 0;  // of those found
        for (uint32_t i = 0; i < p->n; ++i) {
            const int32_t v = sign * x[i * inner];
            if (found == p->k && v <= least) {
                continue;
            }
            uint32_t at = found < p->k ? found++ : p->k - 1;
            for (; at && v > sign * x[(size_t)y[(at - 1) * inner] * inner]; --at) {
                y[at * inner] = y[(at - 1) * inner];
            }
            y[at * inner] = (int32_t)i;
            least = sign * x[(size_t)y[(found - 1) * inner] * inner];
        }
    }
}

#endif

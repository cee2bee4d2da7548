// Features against constant vectors; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_DISTANCES_S8

#include "place.h"

mica_status_t mica_distances_s8_check(const mica_distances_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->rows || !p->in_n || !p->out_n || (uint64_t)p->rows * p->in_n > MICA_MAX_BYTES / 4
        || (uint64_t)p->rows * p->out_n > MICA_MAX_BYTES / 4 || (uint64_t)p->in_n * p->out_n > MICA_MAX_BYTES / 2) {
        return MICA_ERR_SHAPE;
    }
    *what = "a distance can overflow";
    const uint64_t bound = p->bound > 0 ? (uint64_t)p->bound : 0,
        reach = p->kind == MICA_DISTANCES_SUM ? 2 * bound : bound * bound;
    const uint64_t most = p->in_n * (p->kind == MICA_DISTANCES_SQUARES ? 4 * reach : reach);
    return bound >= 1 && bound <= 32767 && most < (uint64_t)1 << 31 ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_distances_s8_rows(const mica_distances_s8_t *p) {
    return p->rows;
}

static bool within(const int16_t *v, size_t n, int32_t bound) {
    for (size_t i = 0; i < n; ++i) {
        if (v[i] > bound || v[i] < -bound) {
            return false;
        }
    }
    return true;
}

mica_status_t mica_distances_s8_check_constants(const mica_distances_s8_t *p, const char **what) {
    if (((uintptr_t)p->points | (uintptr_t)p->missing) & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    *what = "a scale is -2^31";
    for (uint32_t f = 0; f < p->in_n; ++f) {
        if (p->scale[f] == INT32_MIN) {
            return MICA_ERR_RANGE;
        }
    }
    *what = "points are not within the bound";
    bool sound = within(p->points, (size_t)p->in_n * p->out_n, p->bound) && within(p->missing, p->in_n, p->bound);
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

// Adds to the distances of all points what one feature, `place` on its grid, adds. Sums wrap in a file that changed
// since it was checked; in others they cannot.
static void add(int32_t *y, const int16_t *points, uint32_t n, int32_t place, uint8_t kind) {
    uint32_t *sum = (uint32_t *)y;
    if (kind == MICA_DISTANCES_SQUARES) {
        for (uint32_t s = 0; s < n; ++s) {
            const uint32_t d = (uint32_t)(place - points[s]);
            sum[s] += d * d;
        }
    } else if (kind == MICA_DISTANCES_PRODUCTS) {
        for (uint32_t s = 0; s < n; ++s) {
            sum[s] += (uint32_t)(place * points[s]);
        }
    } else {
        for (uint32_t s = 0; s < n; ++s) {
            const int32_t d = place - points[s];
            sum[s] += (uint32_t)(d < 0 ? -d : d);
        }
    }
}

void mica_distances_s8_ref(const mica_distances_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int32_t *x = p->x + (size_t)r * p->in_n;
        int32_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t s = 0; s < p->out_n; ++s) {
            y[s] = 0;
        }
        for (uint32_t f = 0; f < p->in_n; ++f) {
            int64_t place = p->missing[f];
            if (!mica_is_nan(x[f])) {
                place = mica_place(x[f], p->scale[f], p->exponent[f], p->offset[f]);
                place = place < -p->bound ? -p->bound : place > p->bound ? p->bound : place;
            }
            add(y, p->points + (size_t)f * p->out_n, p->out_n, (int32_t)place, p->kind);
        }
    }
}

#endif

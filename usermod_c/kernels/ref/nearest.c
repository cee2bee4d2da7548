// The nearest of constant vectors, by their distances; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_NEAREST_S8

#include "integer_math.h"
#include "requant.h"

mica_status_t mica_nearest_s8_check(const mica_nearest_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->rows || !p->in_n || !p->out_n || (uint64_t)p->rows * p->in_n > MICA_MAX_BYTES / 4
        || (uint64_t)p->rows * p->out_n > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    *what = "k is 0, or more than there are";
    if (!p->k || p->k > p->in_n) {
        return MICA_ERR_RANGE;
    }
    *what = "act_min is above act_max, mult is negative or shift outside -30 to 31";
    bool sound = p->act_min <= p->act_max && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN
        && p->shift <= MICA_SHIFT_MAX;
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_nearest_s8_rows(const mica_nearest_s8_t *p) {
    return p->rows;
}

mica_status_t mica_nearest_s8_check_constants(const mica_nearest_s8_t *p, const char **what) {
    if (((uintptr_t)p->target | (uintptr_t)p->value) & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    *what = "a target is none of the output's numbers";
    for (uint32_t s = 0; s < p->in_n; ++s) {
        if (p->target[s] >= p->out_n) {
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

// The least distance behind (*far, *at) in the order of distances and places: there. False where there is none.
static bool next(const int32_t *x, uint32_t n, int32_t *far, uint32_t *at) {
    const int32_t last = *far;
    const uint32_t from = *at;
    bool found = false;
    for (uint32_t s = 0; s < n; ++s) {
        const int32_t d = x[s] < 0 ? 0 : x[s];
        if ((!found || d < *far) && (d > last || (d == last && s > from))) {
            *far = d;
            *at = s;
            found = true;
        }
    }
    return found;
}

static uint32_t weight(uint8_t kind, int32_t far, uint32_t *first) {
    if (kind == MICA_NEAREST_UNIFORM || kind == MICA_NEAREST_REACH) {
        return 1;
    }
    const uint32_t r = kind == MICA_NEAREST_BY_ROOT ? mica_root((uint32_t)far) : (uint32_t)far;
    *first = *first == UINT32_MAX ? r : *first;
    if (*first == 0) {
        return r == 0;
    }
    return (uint32_t)(((uint64_t)*first << 15) / r);
}

// floor((sum * 512 + weights) / (2 * weights)), without a signed division of 64 bits, which libgcc has apart: 0.6 kB.
static int32_t mean(int64_t sum, int64_t weights) {
    const int64_t above = sum * 512 + weights, below = 2 * weights;
    const uint64_t size = (uint64_t)(above < 0 ? below - 1 - above : above);
    const int32_t whole = (int32_t)(size / (uint64_t)below);
    return above < 0 ? -whole : whole;
}

void mica_nearest_s8_ref(const mica_nearest_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int64_t *sum = (int64_t *)(((uintptr_t)scratch + 7) & ~(uintptr_t)7);
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int32_t *x = p->x + (size_t)r * p->in_n;
        int8_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t n = 0; n < p->out_n; ++n) {
            sum[n] = 0;
        }
        int32_t far = -1;
        uint32_t at = 0, first = UINT32_MAX;
        int64_t weights = 0;
        for (uint32_t j = 0; j < p->k && next(x, p->in_n, &far, &at); ++j) {
            const uint32_t w = weight(p->kind, far, &first), target = p->target[at];
            int32_t value = p->value[at];
            if (p->kind == MICA_NEAREST_REACH) {
                const int32_t reach = (int32_t)mica_root((uint32_t)far);
                value = reach > value ? reach : value;
            }
            weights += w;
            if (target < p->out_n) {  // in a file that changed since it was checked it may not be
                sum[target] += (int64_t)w * value;
            }
        }
        for (uint32_t n = 0; n < p->out_n; ++n) {
            y[n] = mica_requant_s8(mean(sum[n], weights), p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

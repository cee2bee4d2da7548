// Where features stand among the thresholds of trees; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_RANKS_S8

#define MOST 255  // thresholds of a column: as many steps as there are between 256 integers

mica_status_t mica_ranks_s8_check(const mica_ranks_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    bool fits = p->rows && p->in_n && p->out_n && (uint64_t)p->rows * p->in_n <= MICA_MAX_BYTES / 4
        && (uint64_t)p->rows * p->out_n <= MICA_MAX_BYTES && p->n_thresholds <= MICA_MAX_BYTES / 4;
    return fits ? MICA_OK : MICA_ERR_SHAPE;
}

uint32_t mica_ranks_s8_rows(const mica_ranks_s8_t *p) {
    return p->rows;
}

mica_status_t mica_ranks_s8_check_constants(const mica_ranks_s8_t *p, const char **what) {
    if ((uintptr_t)p->source & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    for (uint32_t c = 0; c < p->out_n; ++c) {
        if (p->source[c] >= p->in_n) {
            *what = "a source is none of the features";
            return MICA_ERR_RANGE;
        }
        if (p->first[c + 1] < p->first[c] || p->first[c + 1] - p->first[c] > MOST) {
            *what = "a column of more than 255 thresholds";
            return MICA_ERR_RANGE;
        }
    }
    *what = "the columns' thresholds are not all that there are";
    return p->first[0] == 0 && p->first[p->out_n] == p->n_thresholds ? MICA_OK : MICA_ERR_RANGE;
}

void mica_ranks_s8_ref(const mica_ranks_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    int8_t *y = p->y + (size_t)row_begin * p->out_n;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int32_t *x = p->x + (size_t)r * p->in_n;
        for (uint32_t c = 0; c < p->out_n; ++c) {
            const uint32_t source = p->source[c], first = p->first[c];
            uint32_t n = p->first[c + 1] - first;
            const bool sound = source < p->in_n && first <= p->n_thresholds && n <= p->n_thresholds - first;
            const int32_t bits = x[sound ? source : 0];  // the file may have changed since
            const int32_t size = bits & 0x7fffffff, key = bits < 0 ? -size : size;
            if (size > 0x7f800000 || !sound) {
                *y++ = p->missing[c];
                continue;
            }
            const int32_t *low = p->thresholds + first;
            while (n) {
                const uint32_t half = n >> 1;
                if (low[half] < key) {
                    low += half + 1;
                    n -= half + 1;
                } else {
                    n = half;
                }
            }
            *y++ = (int8_t)((int32_t)(low - p->thresholds) - (int32_t)first - 128);
        }
    }
}

#endif

// Features in units of their own into one scale, without floating point; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_FEATURES_S8

#include "place.h"

mica_status_t mica_features_s8_check(const mica_features_s8_t *p, const char **what) {
    if (!p->rows || !p->n || (uint64_t)p->rows * p->n > MICA_MAX_BYTES / 4) {
        *what = "a dimension is 0, or a tensor too large";
        return MICA_ERR_SHAPE;
    }
    *what = "act_min is above act_max";
    return p->act_min <= p->act_max ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_features_s8_rows(const mica_features_s8_t *p) {
    return p->rows;
}

mica_status_t mica_features_s8_check_constants(const mica_features_s8_t *p, const char **what) {
    *what = "a scale is -2^31";
    for (uint32_t f = 0; f < p->n; ++f) {
        if (p->scale[f] == INT32_MIN) {
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

void mica_features_s8_ref(const mica_features_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const int32_t *x = p->x + (size_t)row_begin * p->n;
    int8_t *y = p->y + (size_t)row_begin * p->n;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        for (uint32_t f = 0; f < p->n; ++f) {
            const int32_t bits = *x++;
            const int64_t v = mica_is_nan(bits) ? p->missing[f]
                : mica_place(bits, p->scale[f], p->exponent[f], p->offset[f]);
            *y++ = (int8_t)(v < p->act_min ? p->act_min : v > p->act_max ? p->act_max : v);
        }
    }
}

#endif

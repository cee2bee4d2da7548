// Sums of a function of the input, as support vector machines have them; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_MACHINE_S8

#include "requant.h"

#define MOST ((int32_t)1 << 22)  // of the table

mica_status_t mica_machine_s8_check(const mica_machine_s8_t *p, const char **what) {
    *what = "a dimension is 0, or a tensor too large";
    if (!p->rows || !p->in_n || !p->out_n || (uint64_t)p->rows * p->in_n > MICA_MAX_BYTES / 4
        || (uint64_t)p->rows * p->out_n > MICA_MAX_BYTES || (uint64_t)p->in_n * p->out_n > MICA_MAX_BYTES / 2) {
        return MICA_ERR_SHAPE;
    }
    *what = "act_min is above act_max, a mult is negative or a shift outside -30 to 31";
    bool sound = p->act_min <= p->act_max && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN
        && p->shift <= MICA_SHIFT_MAX && p->in_mult >= MICA_MULT_MIN && p->in_shift >= MICA_SHIFT_MIN
        && p->in_shift <= MICA_SHIFT_MAX && p->down <= 40;
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_machine_s8_rows(const mica_machine_s8_t *p) {
    return p->rows;
}

mica_status_t mica_machine_s8_check_constants(const mica_machine_s8_t *p, const char **what) {
    if ((uintptr_t)p->factors & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    *what = "the table is not within +-2^22";
    for (uint32_t i = 0; i < MICA_MACHINE_TABLE; ++i) {
        if (p->table[i] > MOST || p->table[i] < -MOST) {
            return MICA_ERR_RANGE;
        }
    }
    *what = "a sum can overflow";
    for (uint32_t n = 0; n < p->out_n; ++n) {
        uint64_t sum = 0;
        for (uint32_t s = 0; s < p->in_n; ++s) {
            const int32_t w = p->factors[(size_t)s * p->out_n + n];
            sum += (uint32_t)(w < 0 ? -w : w);
        }
        const uint32_t bias = p->bias[n] < 0 ? 0u - (uint32_t)p->bias[n] : (uint32_t)p->bias[n];
        if ((sum << 22 >> p->down) + bias + 1 >= (uint64_t)1 << 31) {
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

// The function of one input. The table's ends are those of an unchanged file, or the limits.
static int32_t value(const mica_machine_s8_t *p, int32_t x) {
    int64_t u = (((int64_t)x * p->in_mult + ((int64_t)1 << (30 + p->in_shift))) >> (31 + p->in_shift)) + p->in_offset;
    u = u < 0 ? 0 : u > 65535 ? 65535 : u;
    const int32_t *at = p->table + (u >> 8);
    const int32_t low = mica_clamp(at[0], -MOST, MOST), high = mica_clamp(at[1], -MOST, MOST);
    return low + ((high - low) * (int32_t)(u & 255) >> 8);
}

void mica_machine_s8_ref(const mica_machine_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int64_t *sum = (int64_t *)(((uintptr_t)scratch + 7) & ~(uintptr_t)7);
    const int64_t half = (int64_t)1 << p->down >> 1;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int32_t *x = p->x + (size_t)r * p->in_n;
        int8_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t n = 0; n < p->out_n; ++n) {
            sum[n] = 0;
        }
        const int16_t *w = p->factors;
        for (uint32_t s = 0; s < p->in_n; ++s) {
            const int32_t v = value(p, x[s]);
            for (uint32_t n = 0; n < p->out_n; ++n) {
                sum[n] += (int64_t)v * *w++;
            }
        }
        for (uint32_t n = 0; n < p->out_n; ++n) {
            const int32_t acc = (int32_t)(p->bias[n] + ((sum[n] + half) >> p->down));
            y[n] = mica_requant_s8(acc, p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

// Matrix product with constant weights on a Cortex-M0+ (dense.S). What it does not take goes to the reference.
// Bytes of scratch: 2 for each element of a row.
#include "../c32/kernels.h"
#include "kernels.h"
#if !defined(MICA_WITHOUT_FULLY_CONNECTED_S8) || !defined(MICA_WITHOUT_CONV2D_S8)

#include "shape.h"

static inline uint32_t *put_pairs(uint32_t *to, uint32_t v, uint32_t turn) {
    v = (v >> turn | v << turn) ^ 0x80808080;
    *to++ = (v & 0x00ff00ff) - 0x00800080;
    *to++ = (v >> 8 & 0x00ff00ff) - 0x00800080;
    return to;
}

// turn: 16, or 0 for pairs that are not crossed.
static inline uint32_t *put_all(uint32_t *to, const int8_t *x, uint32_t k, uint32_t turn) {
    if (((uintptr_t)x & 3) == 0) {
        for (const int8_t *end = x + (k & ~3u); x != end; x += 4) {
            to = put_pairs(to, *(const mica_word_t *)(const void *)x, turn);
        }
        k &= 3;
    }
    while (k) {
        uint32_t v = 0, n = k < 4 ? k : 4;
        for (uint32_t i = 0; i < n; ++i) {
            v |= (uint32_t)(uint8_t)*x++ << 8 * i;
        }
        to = put_pairs(to, v, turn);
        k -= n;
    }
    return to;
}

void mica_armv6m_pairs(uint32_t *to, const int8_t *x, uint32_t k) {
    put_all(to, x, k, 16);
}

void mica_armv6m_even_pairs(uint32_t *to, const int8_t *x, uint32_t k) {
    uint32_t *end = put_all(to, x, k, 0);
    if ((k + 3) / 4 % 2) {
        end[0] = end[1] = 0;
    }
}

void mica_armv6m_code_pairs(uint32_t *to, const int8_t *table) {
    uint32_t first[MICA_CODES];
    for (uint32_t i = 0; i < MICA_CODES; ++i) {
        first[i] = (uint32_t)table[i] << 16;
    }
    for (const int8_t *end = table + MICA_CODES; table != end; ++table) {
        const uint32_t second = (uint32_t)*table;
        for (uint32_t i = 0; i < MICA_CODES; i += 4, to += 4) {
            uint32_t a = first[i], b = first[i + 1], c = first[i + 2], d = first[i + 3];
            to[0] = a + second;
            to[1] = b + second;
            to[2] = c + second;
            to[3] = d + second;
        }
    }
}

#ifndef MICA_WITHOUT_CODES4
// The last of an odd number of rows, as a pair of its own.
static __attribute__((noinline)) void last_of_codes(const mica_dense_t *args, uint32_t last) {
    const int32_t bias[2] = { args->bias[last], 0 }, mult[2] = { args->mult[last], 0 };
    const int8_t shift[2] = { args->shift[last], 1 };
    int8_t y[2];
    mica_dense_t one = *args;
    one.weights += last * args->row;
    one.bias = bias;
    one.mult = mult;
    one.shift = shift;
    one.y = y;
    one.row = 0;
    mica_armv6m_dense_code_pairs(&one);
    args->y[last] = y[0];
}

void mica_armv6m_dense_codes(mica_dense_t *args, uint32_t n) {
    const int8_t *end = args->weights + n * args->row;
    args->weights_end = n & 1 ? end - args->row : end;
    if (n > 1) {
        mica_armv6m_dense_code_pairs(args);
    }
    if (n & 1) {
        args->weights_end = end;
        last_of_codes(args, n - 1);
    }
}
#else
void mica_armv6m_dense_codes(mica_dense_t *args, uint32_t n) {
    (void)args, (void)n;
}
#endif

#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

void mica_fully_connected_s8_armv6m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    const bool codes = MICA_CODED(ch->layout);
    uint32_t row = mica_row_bytes(ch->layout, p->in_k), pairs = codes ? row : row / 2,
        table = codes ? MICA_CODE_PAIRS : 0;
    if (!ch->fast || ch->layout == MICA_LAYOUT_PLAIN || ((uintptr_t)ch->weights & 3)
        || 4 * (pairs + table) > scratch_bytes) {
        mica_fully_connected_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t *x = (uint32_t *)scratch + table;
    if (codes) {
        mica_armv6m_code_pairs(scratch, ch->table);
    }
    mica_dense_t args = {
        .x = x,
        .x_end = x + pairs,
        .weights = ch->weights,
        .weights_end = ch->weights + row * p->out_n,
        .bias = ch->bias,
        .mult = ch->mult,
        .shift = ch->shift,
        .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min),
        .low = ch->act_min,
        .pairs = scratch,
        .row = row,
    };
    for (uint32_t i = row_begin; i < row_end; ++i) {
        args.y = p->y + (size_t)i * p->out_n;
        if (codes) {
            mica_armv6m_even_pairs(x, p->x + (size_t)i * p->in_k, p->in_k);
            mica_armv6m_dense_codes(&args, p->out_n);
        } else {
            mica_armv6m_pairs(x, p->x + (size_t)i * p->in_k, p->in_k);
            mica_armv6m_dense(&args);
        }
    }
}

#endif

#endif

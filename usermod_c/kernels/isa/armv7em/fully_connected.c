// Matrix product with constant weights on a Cortex-M with DSP instructions: x becomes int16 pairs once, two rows of weights
// are taken apart on the way (dense.S). Bytes of scratch: 2 for each element of a row.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "requant.h"
#include "shape.h"

#define MOST 32  // rows of weights a call

// k elements as pairs, of each four (x0, x2), (x1, x3); those beyond the last are 0. Returns their sum.
static int32_t pairs(uint32_t *to, const int8_t *x, uint32_t k) {
    int32_t sum = 0;
    while (k) {
        uint32_t v = 0, n = k < 4 ? k : 4;
        if (n == 4) {
            __builtin_memcpy(&v, x, 4);
        } else {
            for (uint32_t i = 0; i < n; ++i) {
                v |= (uint32_t)(uint8_t)x[i] << 8 * i;
            }
        }
        uint32_t even, odd;
        __asm__ ("sxtb16 %0, %2\n\tsxtb16 %1, %2, ror #8" : "=&r" (even), "=r" (odd) : "r" (v));
        __asm__ ("smlad %0, %1, %3, %0\n\tsmlad %0, %2, %3, %0" : "+&r" (sum) : "r" (even), "r" (odd), "r" (0x00010001));
        *to++ = even;
        *to++ = odd;
        x += n;
        k -= n;
    }
    return sum;
}

// As mica_requant_s8, of a step that claims FAST: |acc| < 2^29 and shift >= 1. SMMUL drops 32 bits of the product, so acc
// goes in doubled.
static inline int8_t requant(int32_t acc, int32_t mult, int32_t shift, int32_t zero, int32_t low, int32_t high) {
    int32_t r;
    __asm__ ("smmul %0, %1, %2" : "=r" (r) : "r" (2 * acc), "r" (mult));
    return (int8_t)mica_clamp(zero + (((r >> (shift - 1)) + 1) >> 1), low, high);
}

// n outputs from o on; their sums do not hold the bias, and are `excess` too large.
static void finish(const mica_channels_t *ch, uint32_t o, const int32_t *sums, uint32_t excess, uint32_t n, int8_t *y) {
    const int32_t *bias = ch->bias + o, *mult = ch->mult + o;
    const int8_t *shift = ch->shift + o;
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    const int32_t *end = sums + n;
    if (ch->fast) {
        do {
            int32_t acc = (int32_t)((uint32_t)*sums++ + (uint32_t)*bias++ - excess);
            *y++ = requant(acc, *mult++, *shift++, zero, low, high);
        } while (sums != end);
        return;
    }
    do {
        int32_t acc = (int32_t)((uint32_t)*sums++ + (uint32_t)*bias++ - excess);
        *y++ = mica_requant_s8(acc, *mult++, *shift++, zero, low, high);
    } while (sums != end);
}

void mica_fully_connected_s8_armv7em(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k);
    if (ch->layout != MICA_LAYOUT_OFFSET_ROWS || !mica_aligned4(ch->weights) || 2 * row > scratch_bytes) {
        mica_fully_connected_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const int8_t *x = p->x + (size_t)row_begin * k;
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t i = row_begin; i < row_end; ++i, x += k) {
        uint32_t excess = 128 * (uint32_t)pairs(scratch, x, k);
        const int8_t *w = ch->weights;
        uint32_t count;
        for (uint32_t o = 0; o < n; o += count, w += count * row) {
            int32_t sums[MOST];
            count = n - o < MOST ? n - o : MOST;
            if (count > 1) {
                count &= ~1u;
                mica_dsp_dense(scratch, w, row, row / 4, count / 2, sums);
            } else {
                mica_dsp_dense(scratch, w, 0, row / 4, 1, sums);
            }
            finish(ch, o, sums, excess, count, y);
            y += count;
        }
    }
}

#endif

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

// n outputs from o on; their sums do not hold the bias, and are `excess` too large.
static void finish(const mica_channels_t *ch, uint32_t o, const int32_t *sums, uint32_t excess, uint32_t n, int8_t *y) {
    const int32_t *bias = ch->bias + o, *mult = ch->mult + o;
    const int8_t *shift = ch->shift + o;
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    const int32_t *end = sums + n;
    if (ch->fast) {
        do {
            int32_t acc = (int32_t)((uint32_t)*sums++ + (uint32_t)*bias++ - excess);
            *y++ = mica_dsp_requantised(acc, *mult++, *shift++, zero, low, high);
        } while (sums != end);
        return;
    }
    do {
        int32_t acc = (int32_t)((uint32_t)*sums++ + (uint32_t)*bias++ - excess);
        *y++ = mica_requant_s8(acc, *mult++, *shift++, zero, low, high);
    } while (sums != end);
}

#define SMLAD(acc, a, b) __asm__ ("smlad %0, %1, %2, %0" : "+r" (acc) : "r" (a), "r" (b))

// sums[0] and [1]: `words` * 4 elements of x, as pairs, with two rows of codes.
static void dots_codes(const uint32_t *x, const int8_t *w, uint32_t row, uint32_t words, const uint32_t *table, int32_t *sums) {
    int32_t a = 0, b = 0;
    for (const uint32_t *end = x + 2 * words; x != end; x += 2, w += 2) {
        uint32_t u = mica_dsp_codes(w), v = mica_dsp_codes(w + row), even = x[0], odd = x[1];
        SMLAD(a, even, table[u & 255]);
        SMLAD(b, even, table[v & 255]);
        SMLAD(a, odd, table[u >> 8]);
        SMLAD(b, odd, table[v >> 8]);
    }
    sums[0] = a;
    sums[1] = b;
}

// Bytes of scratch: a table of pairs, then 2 for each element of a row.
static void codes(const mica_fully_connected_s8_t *p, uint32_t row_begin, uint32_t row_end, uint32_t *scratch) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k), *x = scratch + MICA_CODE_PAIRS;
    mica_dsp_code_pairs(scratch, ch->table);
    for (uint32_t i = row_begin; i < row_end; ++i) {
        int8_t *y = p->y + (size_t)i * n;
        pairs(x, p->x + (size_t)i * k, k);
        for (uint32_t o = 0; o < n; o += 2) {
            int32_t sums[2];
            uint32_t other = o + 1 < n ? 1 : 0;
            dots_codes(x, ch->weights + (size_t)o * row, other * row, (k + 3) / 4, scratch, sums);
            finish(ch, o, sums, 0, 1 + other, y + o);
        }
    }
}

void mica_fully_connected_s8_armv7em(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k);
    if (MICA_CODED(ch->layout) && 4 * (size_t)MICA_CODE_PAIRS + 2 * (size_t)((k + 3) & ~3u) <= scratch_bytes) {
        codes(p, row_begin, row_end, scratch);
        return;
    }
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

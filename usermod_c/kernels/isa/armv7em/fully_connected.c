// Matrix product with constant weights on a Cortex-M with DSP instructions: x becomes int16 pairs once, two rows of
// weights are taken apart on the way (dense.S). Bytes of scratch: 2 for each element of a row.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "requant.h"
#include "shape.h"

#define MOST 32  // rows of weights a call
#define FEW 4  // below, pairs of x are not worth while

#define SMLAD(acc, a, b) __asm__ ("smlad %0, %1, %2, %0" : "+r" (acc) : "r" (a), "r" (b))

// Four bytes as pairs (0, 2) and (1, 3).
#define SPLIT(sign, even, odd, v) \
    __asm__ (#sign "xtb16 %0, %2\n\t" #sign "xtb16 %1, %2, ror #8" : "=&r" (even), "=r" (odd) : "r" (v))

// Up to three bytes, and zeros.
static uint32_t last_bytes(const int8_t *x, uint32_t n) {
    uint32_t v = 0;
    for (uint32_t i = 0; i < n; ++i) {
        v |= (uint32_t)(uint8_t)x[i] << 8 * i;
    }
    return v;
}

// k elements as pairs; those beyond the last are 0. Returns their sum.
static int32_t pairs(uint32_t *to, const int8_t *x, uint32_t k) {
    int32_t sum = 0;
    const int8_t *const end = x + (k & ~3u);
    uint32_t even, odd;
    #define PAIRS(v) { \
        SPLIT(s, even, odd, v); \
        SMLAD(sum, even, 0x00010001); \
        SMLAD(sum, odd, 0x00010001); \
        to[0] = even; \
        to[1] = odd; \
        to += 2; \
    }
    while (x != end) {
        uint32_t v;
        __builtin_memcpy(&v, x, 4);
        x += 4;
        PAIRS(v)
    }
    if (k & 3) {
        PAIRS(last_bytes(x, k & 3))
    }
    #undef PAIRS
    return sum;
}

// sums[0] and [1]: k elements of x with two rows of weights 128 too large, without pairs in between.
static void two_dots(const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, int32_t *sums) {
    int32_t a = 0, b = 0;
    uint32_t even, odd, even1, odd1;
    #define TWO(v) { \
        SPLIT(s, even, odd, v); \
        SPLIT(s, even1, odd1, *(const mica_word_t *)(const void *)w ^ 0x80808080u); \
        SMLAD(a, even, even1); \
        SMLAD(a, odd, odd1); \
        SPLIT(s, even1, odd1, *(const mica_word_t *)(const void *)(w + row) ^ 0x80808080u); \
        SMLAD(b, even, even1); \
        SMLAD(b, odd, odd1); \
        w += 4; \
    }
    for (const int8_t *const end = x + (k & ~3u); x != end;) {
        uint32_t v;
        __builtin_memcpy(&v, x, 4);
        x += 4;
        TWO(v)
    }
    if (k & 3) {
        TWO(last_bytes(x, k & 3))
    }
    #undef TWO
    sums[0] = a;
    sums[1] = b;
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

// sums[0] and [1]: `words` * 4 elements of x, as pairs, with two rows of codes.
static void dots_codes(const uint32_t *x, const int8_t *w, uint32_t row, uint32_t words, const uint32_t *table,
    int32_t *sums) {
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
    for (uint32_t i = row_begin; i < row_end && n < FEW; ++i, x += k, y += n) {
        for (uint32_t o = 0; o < n; o += 2) {
            int32_t sums[2];
            const uint32_t other = o + 1 < n;
            two_dots(x, ch->weights + (size_t)o * row, other * row, k, sums);
            finish(ch, o, sums, 0, 1 + other, y + o);
        }
    }
    for (uint32_t i = row_begin; i < row_end && n >= FEW; ++i, x += k) {
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

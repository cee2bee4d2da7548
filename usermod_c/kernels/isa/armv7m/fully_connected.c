// Matrix product with constant weights on a Cortex-M3: x becomes crossed pairs once, two rows of weights are taken
// apart on the way (dense.S). What does not claim FAST goes to c32. Bytes of scratch: 2 for each element of a row; with
// less, x is prepared in parts, again for every few rows of weights.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "requant.h"
#include "shape.h"

#define ROWS 16  // of weights for which x is prepared at once
#define PART 32  // words of x, where there is no scratch

// The next `words` words of x as crossed pairs, (x2 + x0 * 2^16), (x3 + x1 * 2^16); beyond n elements there are zeros.
static void pairs(uint32_t *to, const int8_t *x, uint32_t n, uint32_t words) {
    int8_t last[4] = { 0 };
    for (; words; --words, x += 4, to += 2, n -= 4) {
        if (n < 4) {
            mica_copy(last, x, n);
            x = last;
            n = 4;
        }
        to[0] = (uint32_t)x[2] + ((uint32_t)x[0] << 16);
        to[1] = (uint32_t)x[3] + ((uint32_t)x[1] << 16);
    }
}

// n outputs from o on, as mica_requant_s8 with |acc| < 2^29 and shift >= 1: the upper word of the product of 2 * acc is
// what is left of it after a shift by 31.
static void finish(const mica_channels_t *ch, uint32_t o, const int32_t *sums, uint32_t n, int8_t *y) {
    const int32_t *mult = ch->mult + o;
    const int8_t *shift = ch->shift + o;
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    for (int8_t *end = y + n; y != end;) {
        int32_t t = (int32_t)((int64_t)(2 * *sums++) * *mult++ >> 32);
        *y++ = (int8_t)mica_clamp(zero + (((t >> (*shift++ - 1)) + 1) >> 1), low, high);
    }
}

void mica_fully_connected_s8_armv7m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k), words = row / 4;
    if (ch->layout != MICA_LAYOUT_OFFSET_ROWS || !ch->fast) {
        mica_fully_connected_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t few[2 * PART], *prepared = scratch, part = words;
    if (2 * row > scratch_bytes) {
        prepared = few;
        part = words < PART ? words : PART;
    }
    const int8_t *x = p->x + (size_t)row_begin * k;
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t i = row_begin; i < row_end; ++i, x += k) {
        const int8_t *w = ch->weights;
        const int32_t *bias = ch->bias;
        for (uint32_t o = 0; o < n; o += ROWS, w += ROWS * row) {
            int32_t sums[ROWS + 1];
            uint32_t count = n - o < ROWS ? n - o : ROWS;
            for (uint32_t j = 0; j < count; ++j) {
                sums[j] = bias[j];
            }
            bias += count;
            for (uint32_t at = 0; at < words; at += part) {
                uint32_t length = words - at < part ? words - at : part;
                if (o == 0 || part != words) {
                    pairs(prepared, x + 4 * at, k - 4 * at, length);
                }
                for (uint32_t j = 0; j < count; j += 2) {
                    // The last of an odd number twice; the second sum is of no use.
                    mica_armv7m_dense(sums + j, prepared, length, w + j * row + 4 * at, j + 1 < count ? row : 0);
                }
            }
            finish(ch, o, sums, count, y);
            y += count;
        }
    }
}

#endif

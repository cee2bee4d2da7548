// Matrix product with constant weights on a Cortex-M with DSP instructions: x becomes int16 pairs once, two rows of weights
// are taken apart on the way (dense.S). Bytes of scratch: 2 for each element of a row.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "requant.h"
#include "shape.h"

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
        for (uint32_t o = 0; o < n; o += 2, w += 2 * row) {
            uint32_t count = o + 1 < n ? 2 : 1;
            int32_t sums[2];
            mica_dsp_dense(scratch, w, w + (count - 1) * row, row / 4, sums);
            for (uint32_t j = 0; j < count; ++j) {
                int32_t acc = (int32_t)((uint32_t)sums[j] + (uint32_t)ch->bias[o + j] - excess);
                *y++ = mica_requant_s8(acc, ch->mult[o + j], ch->shift[o + j], ch->y_zero, ch->act_min, ch->act_max);
            }
        }
    }
}

#endif

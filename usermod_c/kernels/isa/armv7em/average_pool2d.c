// Mean of each window on a Cortex-M with DSP instructions, four channels at a time: SXTAB16 adds two bytes of a word to
// two sums of 16 bits, of which 255 taps fit.
#include "kernels.h"
#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8

#include "requant.h"
#include "shape.h"

#define MOST 255  // 255 * 128 < 2^15

// Adds bytes 0 and 2 of n words, `step` bytes apart, to sums[0] and [2], bytes 1 and 3 to the others.
static const int8_t *add_column(const int8_t *x, uint32_t n, uint32_t step, int32_t *sums) {
    uint32_t even = 0, odd = 0, v;
    #define TAP \
    __builtin_memcpy(&v, x, 4); \
    x += step; \
    __asm__ ("sxtab16 %0, %0, %2\n\tsxtab16 %1, %1, %2, ror #8" : "+&r" (even), "+&r" (odd) : "r" (v));
    for (; n >= 4; n -= 4) {
        TAP
        TAP
        TAP
        TAP
    }
    for (; n; --n) {
        TAP
    }
    #undef TAP
    sums[0] += (int16_t)even;
    sums[1] += (int16_t)odd;
    sums[2] += (int32_t)even >> 16;
    sums[3] += (int32_t)odd >> 16;
    return x;
}

void mica_average_pool2d_s8_armv7em(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *win = &p->win;
    uint32_t channels = win->in_c;
    if (channels < 4 || p->entries != 1) {
        mica_average_pool2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t mult = p->mult[0], shift = p->shift[0], zero = p->y_zero, low = p->act_min, high = p->act_max;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * channels;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top, ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, 1, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox, y += channels) {
            int32_t ix = ox * win->stride_w - win->pad_left, kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, 1, &kx0, &kx1);
            uint32_t rows = (uint32_t)(ky1 - ky0), columns = (uint32_t)(kx1 - kx0);
            if (columns == win->in_w) {  // rows side by side are one
                columns *= rows;
                rows = 1;
            }
            const int8_t *first = p->x + (uint32_t)((iy + ky0) * win->in_w + ix + kx0) * channels;
            int32_t base = -(int32_t)(rows * columns) * p->x_zero;
            for (uint32_t c = 0;;) {
                int32_t sums[4] = { base, base, base, base };
                for (uint32_t r = 0; r < rows; ++r) {
                    const int8_t *x = first + r * win->in_w * channels + c;
                    for (uint32_t left = columns, n; left; left -= n) {
                        n = left < MOST ? left : MOST;
                        x = add_column(x, n, channels, sums);
                    }
                }
                for (uint32_t i = 0; i < 4; ++i) {
                    y[c + i] = mica_requant_s8(sums[i], mult, shift, zero, low, high);
                }
                if (c + 4 == channels) {
                    break;
                }
                c = c + 8 <= channels ? c + 4 : channels - 4;  // the last four may overlap those before
            }
        }
    }
}

#endif

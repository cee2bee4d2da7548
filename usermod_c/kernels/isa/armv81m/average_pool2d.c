// Mean of each window with MVE, eight channels at a time, in sums of 16 bits, of which 255 taps fit. The walk over
// windows is written as in armv7em: what is done in each differs in every line.
#include "kernels.h"
#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8

#include "shape.h"

#define MOST 255  // 255 * 128 < 2^15

// Eight channels of n taps, `step` bytes apart.
static inline int16x8_t add_column(const int8_t *x, uint32_t n, uint32_t step) {
    int16x8_t sum = vdupq_n_s16(0);
    __asm__ volatile ("dls lr, %3\n1:\tvldrb.s16 q0, [%1]\n\tadd %1, %2\n\tvadd.i16 %q0, %q0, q0\n\tle lr, 1b"
        : "+w" (sum), "+l" (x) : "r" (step), "r" (n) : "lr", "q0", "memory");
    return sum;
}

void mica_average_pool2d_s8_armv81m(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *win = &p->win;
    const uint32_t channels = win->in_c;
    if (channels < 8 || p->entries != 1 || p->shift[0] < 1) {
        mica_average_pool2d_s8_armv7em(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const int32_t mult = p->mult[0], shift = -p->shift[0], zero = p->y_zero;
    const int16x8_t low = vdupq_n_s16(p->act_min), high = vdupq_n_s16(p->act_max);
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
            const int32_t base = -(int32_t)(rows * columns) * p->x_zero;
            for (uint32_t c = 0;;) {
                int32x4_t even = vdupq_n_s32(base), odd = even;
                for (uint32_t r = 0; r < rows; ++r) {
                    const int8_t *x = first + r * win->in_w * channels + c;
                    for (uint32_t left = columns, n; left; left -= n, x += n * channels) {
                        n = left < MOST ? left : MOST;
                        const int16x8_t sum = add_column(x, n, channels);
                        even = vaddq_s32(even, vmovlbq_s16(sum));
                        odd = vaddq_s32(odd, vmovltq_s16(sum));
                    }
                }
                even = vaddq_n_s32(vrshlq_n_s32(vqdmulhq_n_s32(even, mult), shift), zero);
                odd = vaddq_n_s32(vrshlq_n_s32(vqdmulhq_n_s32(odd, mult), shift), zero);
                int16x8_t both = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), even), odd);
                vstrbq_s16(y + c, vminq_s16(vmaxq_s16(both, low), high));
                if (c + 8 == channels) {
                    break;
                }
                c = c + 16 <= channels ? c + 8 : channels - 8;  // the last eight may overlap those before
            }
        }
    }
}

#endif

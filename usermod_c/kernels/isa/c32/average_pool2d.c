// Mean of each window, four channels at a time where they lie on words: with the sign bit turned a byte is x + 128, and
// a word of four is two sums of 16 bits after two masks. 257 of them fit before the sums are taken over.
#include "kernels.h"
#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8

#include "requant.h"
#include "shape.h"

#define MOST 257  // 257 * 255 = 65535

void mica_average_pool2d_s8_c32(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *win = &p->win;
    uint32_t channels = win->in_c;
    if (channels % 4 || ((uintptr_t)p->x & 3) || p->entries != 1
        || win->kernel_h * (uint32_t)win->kernel_w > (1u << 20)) {
        mica_average_pool2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t mult = p->mult[0], shift = p->shift[0], zero = p->y_zero, low = p->act_min, high = p->act_max;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * channels;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, 1, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, 1, &kx0, &kx1);
            uint32_t rows = (uint32_t)(ky1 - ky0), columns = (uint32_t)(kx1 - kx0), pitch = win->in_w * channels,
                step = channels;
            if (columns == win->in_w) {  // rows side by side are one
                columns *= rows;
                rows = 1;
            } else if (columns == 1) {  // so are taps one below the other
                columns = rows;
                rows = 1;
                step = pitch;
            }
            const int8_t *first = p->x + (uint32_t)((iy + ky0) * win->in_w + ix + kx0) * channels;
            int32_t base = -(int32_t)(rows * columns) * (128 + p->x_zero);
            for (uint32_t c = 0; c < channels; c += 4, first += 4) {
                int32_t acc[4] = { base, base, base, base };
                const int8_t *row = first;
                for (uint32_t r = rows; r; --r, row += pitch) {
                    const int8_t *x = row;
                    for (uint32_t left = columns; left;) {
                        uint32_t n = left < MOST ? left : MOST, even = 0, odd = 0;
                        left -= n;
                        for (const int8_t *end = x + n * step; x != end; x += step) {
                            uint32_t v = *(const mica_word_t *)(const void *)x ^ 0x80808080;
                            even += v & 0x00ff00ff;
                            odd += v >> 8 & 0x00ff00ff;
                        }
                        acc[0] += (int32_t)(even & 0xffff);
                        acc[1] += (int32_t)(odd & 0xffff);
                        acc[2] += (int32_t)(even >> 16);
                        acc[3] += (int32_t)(odd >> 16);
                    }
                }
                for (uint32_t i = 0; i < 4; ++i) {
                    *y++ = shift < 1 ? mica_requant_s8(acc[i], mult, shift, zero, low, high)
                        : mica_requant_fast(acc[i], mult, shift, zero, low, high);
                }
            }
        }
    }
}

#endif

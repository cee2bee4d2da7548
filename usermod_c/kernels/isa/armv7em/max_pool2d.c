// Largest value of each window on a Cortex-M with DSP instructions, four channels at a time: SSUB8 compares, SEL takes.
#include "kernels.h"
#ifndef MICA_WITHOUT_MAX_POOL2D_S8

#include "shape.h"

void mica_max_pool2d_s8_armv7em(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *win = &p->win;
    uint32_t channels = win->in_c, tap = (uint32_t)win->dilation_w * channels, row = (uint32_t)win->dilation_h * win->in_w * channels;
    if (channels < 4) {
        mica_max_pool2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t low = 0x01010101u * (uint8_t)p->act_min, high = 0x01010101u * (uint8_t)p->act_max;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * channels;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top, ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox, y += channels) {
            int32_t ix = ox * win->stride_w - win->pad_left, kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, win->dilation_w, &kx0, &kx1);
            uint32_t rows = (uint32_t)(ky1 - ky0), columns = (uint32_t)(kx1 - kx0);
            const int8_t *first = p->x;
            if (rows && columns) {  // formed only where there is one
                first += (uint32_t)((iy + ky0 * win->dilation_h) * win->in_w + ix + kx0 * win->dilation_w) * channels;
            }
            for (uint32_t c = 0;;) {
                uint32_t most = low, v, sink;
                const int8_t *x_row = first + c;
                for (uint32_t r = columns ? rows : 0; r; --r, x_row += row) {
                    const int8_t *x = x_row;
                    for (uint32_t n = columns; n; --n, x += tap) {
                        __builtin_memcpy(&v, x, 4);
                        __asm__ ("ssub8 %1, %2, %0\n\tsel %0, %2, %0" : "+r" (most), "=&r" (sink) : "r" (v));
                    }
                }
                __asm__ ("ssub8 %1, %2, %0\n\tsel %0, %0, %2" : "+r" (most), "=&r" (sink) : "r" (high));
                __builtin_memcpy(y + c, &most, 4);
                if (c + 4 == channels) {
                    break;
                }
                c = c + 8 <= channels ? c + 4 : channels - 4;  // the last four may overlap those before
            }
        }
    }
}

#endif

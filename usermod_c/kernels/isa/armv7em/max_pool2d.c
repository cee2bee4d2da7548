// Largest value of each window on a Cortex-M with DSP instructions, four channels at a time: SSUB8 compares, SEL takes.
#include "kernels.h"
#ifndef MICA_WITHOUT_MAX_POOL2D_S8

#include "shape.h"

static inline uint32_t word(const int8_t *x) {
    uint32_t v;
    __builtin_memcpy(&v, x, 4);
    return v;
}

// Of each of four channels the larger one.
static inline uint32_t larger(uint32_t a, uint32_t b) {
    uint32_t sink;
    __asm__ ("ssub8 %1, %2, %0\n\tsel %0, %2, %0" : "+r" (a), "=&r" (sink) : "r" (b));
    return a;
}

// Windows of two by two taps inside the image.
static __attribute__((noinline)) void two_by_two(const mica_max_pool2d_s8_t *p, uint32_t row_begin, uint32_t row_end) {
    const mica_window_t *w = &p->win;
    const uint32_t channels = w->in_c, tap = (uint32_t)w->dilation_w * channels,
        row = (uint32_t)w->dilation_h * w->in_w * channels;
    const uint32_t across = (uint32_t)w->stride_w * channels, down = (uint32_t)w->stride_h * w->in_w * channels;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * channels;
    for (; row_begin < row_end; ++row_begin) {
        const int8_t *x = p->x + (size_t)row_begin * down;
        for (uint32_t n = w->out_w; n; --n, x += across, y += channels) {
            const int8_t *at = x, *below = x + row;
            for (int8_t *to = y;;) {
                const uint32_t most = larger(larger(word(at), word(at + tap)), larger(word(below), word(below + tap)));
                __builtin_memcpy(to, &most, 4);
                const uint32_t left = (uint32_t)(y + channels - to), on = left >= 8 ? 4 : left - 4;
                if (!on) {
                    break;
                }
                to += on;  // the last four may overlap those before
                at += on;
                below += on;
            }
        }
    }
}

void mica_max_pool2d_s8_armv7em(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *win = &p->win;
    uint32_t channels = win->in_c, tap = (uint32_t)win->dilation_w * channels,
        row = (uint32_t)win->dilation_h * win->in_w * channels;
    if (channels < 4) {
        mica_max_pool2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    if (mica_pool_is_2x2(p)) {
        two_by_two(p, row_begin, row_end);
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

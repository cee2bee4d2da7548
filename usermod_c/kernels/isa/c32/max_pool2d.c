// Largest value of each window, four channels at a time: what is largest so far stays in registers.
#include "kernels.h"
#ifndef MICA_WITHOUT_MAX_POOL2D_S8

#include "requant.h"
#include "shape.h"

// Of taps `tap` bytes apart in rows `row` bytes apart, beginning with act_min: that clamps from below.
typedef struct {
    uint32_t rows, columns, tap, row;
    int32_t low;
} taps_t;

static int8_t one(const taps_t *t, const int8_t *first) {
    int32_t most = t->low;
    for (uint32_t r = t->rows; r; --r, first += t->row) {
        const int8_t *x = first;
        for (uint32_t n = t->columns; n; --n, x += t->tap) {
            most = *x > most ? *x : most;
        }
    }
    return (int8_t)most;
}

// By itself, so that all of it has registers.
static __attribute__((noinline)) void four(const taps_t *t, const int8_t *first, int8_t *y) {
    int32_t a = t->low, b = a, c = a, d = a;
    uint32_t tap = t->tap, columns = t->columns;
    for (uint32_t r = t->rows; r; --r, first += t->row) {
        const int8_t *x = first;
        for (uint32_t n = columns; n; --n, x += tap) {
            a = x[0] > a ? x[0] : a;
            b = x[1] > b ? x[1] : b;
            c = x[2] > c ? x[2] : c;
            d = x[3] > d ? x[3] : d;
        }
    }
    y[0] = (int8_t)a;
    y[1] = (int8_t)b;
    y[2] = (int8_t)c;
    y[3] = (int8_t)d;
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
        for (uint32_t n = w->out_w; n; --n, x += across) {
            const int8_t *left = x, *right = x + tap, *below = x + row, *last = below + tap;
            for (int8_t *const end = y + channels; y != end; ++y) {
                const int32_t a = *left++, b = *right++, c = *below++, d = *last++, upper = a > b ? a : b,
                    lower = c > d ? c : d;
                *y = (int8_t)(upper > lower ? upper : lower);
            }
        }
    }
}

void mica_max_pool2d_s8_c32(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    if (mica_pool_is_2x2(p)) {
        two_by_two(p, row_begin, row_end);
        return;
    }
    const mica_window_t *win = &p->win;
    uint32_t channels = win->in_c;
    taps_t t = { .low = p->act_min };
    int8_t high = p->act_max;
    t.tap = (uint32_t)win->dilation_w * channels;
    t.row = (uint32_t)win->dilation_h * win->in_w * channels;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * channels;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top, ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            int32_t ix = ox * win->stride_w - win->pad_left, kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, win->dilation_w, &kx0, &kx1);
            t.columns = (uint32_t)(kx1 - kx0);
            t.rows = t.columns ? (uint32_t)(ky1 - ky0) : 0;
            const int8_t *x = p->x;
            if (t.rows) {  // formed only where there is one
                x += (uint32_t)((iy + ky0 * win->dilation_h) * win->in_w + ix + kx0 * win->dilation_w) * channels;
            }
            int8_t *end = y + channels;
            for (int8_t *last = y + (channels & ~3u); y != last; x += 4, y += 4) {
                four(&t, x, y);
            }
            for (; y != end; ++x) {
                *y++ = one(&t, x);
            }
        }
    }
    if (high == 127) {
        return;
    }
    for (int8_t *at = p->y + (size_t)row_begin * win->out_w * channels; at != y; ++at) {
        *at = *at > high ? high : *at;
    }
}

#endif

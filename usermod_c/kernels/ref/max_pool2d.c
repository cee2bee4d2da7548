// Largest value of each window; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_MAX_POOL2D_S8

#include "requant.h"
#include "shape.h"

mica_status_t mica_max_pool2d_s8_check(const mica_max_pool2d_s8_t *p, const char **what) {
    mica_status_t status = mica_window_check(&p->win, what);
    if (status != MICA_OK) {
        return status;
    }
    if (p->win.in_c != p->win.out_c) {
        *what = "input and output differ in channels";
        return MICA_ERR_SHAPE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

uint32_t mica_max_pool2d_s8_rows(const mica_max_pool2d_s8_t *p) {
    return p->win.out_h;
}

void mica_max_pool2d_s8_ref(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    int32_t channels = win->in_c;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;

    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox, y += channels) {
            int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, win->dilation_w, &kx0, &kx1);
            // y[0..channels) gathers the maximum, tap by tap, beginning with act_min: that clamps from below.
            for (int32_t c = 0; c < channels; ++c) {
                y[c] = p->act_min;
            }
            for (int32_t ky = ky0; ky < ky1; ++ky) {
                for (int32_t kx = kx0; kx < kx1; ++kx) {
                    int32_t at = (iy + ky * win->dilation_h) * win->in_w + ix + kx * win->dilation_w;
                    const int8_t *x = p->x + at * channels;
                    for (int32_t c = 0; c < channels; ++c) {
                        if (x[c] > y[c]) {
                            y[c] = x[c];
                        }
                    }
                }
            }
            for (int32_t c = 0; c < channels; ++c) {
                if (y[c] > p->act_max) {
                    y[c] = p->act_max;
                }
            }
        }
    }
}

#endif

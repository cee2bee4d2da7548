// Largest value of each window with MVE, sixteen channels at a time.
#include "kernels.h"
#ifndef MICA_WITHOUT_MAX_POOL2D_S8

#include "shape.h"

void mica_max_pool2d_s8_armv81m(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    const uint32_t channels = win->in_c, tap = (uint32_t)win->dilation_w * channels,
        row = (uint32_t)win->dilation_h * win->in_w * channels;
    const int8x16_t low = vdupq_n_s8(p->act_min), high = vdupq_n_s8(p->act_max);
    int8_t *y = p->y + (size_t)row_begin * win->out_w * channels;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top, ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox, y += channels) {
            int32_t ix = ox * win->stride_w - win->pad_left, kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, win->dilation_w, &kx0, &kx1);
            const uint32_t columns = (uint32_t)(kx1 - kx0), rows = columns ? (uint32_t)(ky1 - ky0) : 0;
            const int8_t *first = p->x;
            if (rows) {  // formed only where there is one
                first += (uint32_t)((iy + ky0 * win->dilation_h) * win->in_w + ix + kx0 * win->dilation_w) * channels;
            }
            for (uint32_t c = 0; c < channels; c += 16) {
                int8x16_t most = low;
                const mve_pred16_t some = vctp8q(channels - c);
                const int8_t *x_row = first + c;
                for (uint32_t r = rows; r; --r, x_row += row) {
                    const int8_t *x = x_row;
                    for (uint32_t n = columns; n; --n, x += tap) {
                        most = vmaxq_s8(most, vldrbq_z_s8(x, some));  // what lies beyond the channels is not stored
                    }
                }
                vstrbq_p_s8(y + c, vminq_s8(most, high), some);
            }
        }
    }
}

#endif

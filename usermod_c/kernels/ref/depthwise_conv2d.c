// Depthwise convolution; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

mica_status_t mica_depthwise_conv2d_s8_check(const mica_depthwise_conv2d_s8_t *p, const char **what) {
    const mica_window_t *w = &p->win;
    mica_status_t status = mica_window_check(w, what);
    if (status != MICA_OK) {
        return status;
    }
    if (w->out_c % w->in_c) {
        *what = "output channels are no multiple of the input channels";
        return MICA_ERR_SHAPE;
    }
    if (mica_product(w->out_c, w->kernel_h, w->kernel_w, 1) > MICA_MAX_BYTES) {
        *what = "too many weights";
        return MICA_ERR_SHAPE;
    }
    return mica_act_check(p->ch.act_min, p->ch.act_max, what);
}

size_t mica_depthwise_conv2d_s8_weights_bytes(const mica_depthwise_conv2d_s8_t *p) {
    return (size_t)p->win.out_c * p->win.kernel_h * p->win.kernel_w;
}

uint32_t mica_depthwise_conv2d_s8_channels(const mica_depthwise_conv2d_s8_t *p) {
    return p->win.out_c;
}

mica_status_t mica_depthwise_conv2d_s8_check_constants(const mica_depthwise_conv2d_s8_t *p, const char **what) {
    return mica_channels_check(&p->ch, p->win.out_c, (uint32_t)p->win.kernel_h * p->win.kernel_w, what);
}

uint32_t mica_depthwise_conv2d_s8_rows(const mica_depthwise_conv2d_s8_t *p) {
    return p->win.out_h;
}

void mica_depthwise_conv2d_s8_ref(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    const mica_channels_t *ch = &p->ch;
    int32_t in_c = win->in_c, kernel_w = win->kernel_w, taps = win->kernel_h * kernel_w;
    int32_t multiplier = win->out_c / in_c;
    // From tap to tap, in bytes of x. No two taps lie inside where the dilation is as large as the picture.
    int32_t row_step = win->dilation_h < win->in_h ? win->dilation_h * win->in_w * in_c : 0;
    int32_t tap_step = win->dilation_w < win->in_w ? win->dilation_w * in_c : 0;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;

    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, kernel_w, win->dilation_w, &kx0, &kx1);
            bool any = ky0 < ky1 && kx0 < kx1;
            bool whole = (ky1 - ky0) * (kx1 - kx0) == taps;
            // First tap inside the image. It is formed only where there is one.
            const int8_t *first = p->x;
            if (any) {
                first += ((iy + ky0 * win->dilation_h) * win->in_w + ix + kx0 * win->dilation_w) * in_c;
            }
            // Every tap is first taken to read x_zero; then those inside the image exchange x_zero for x.
            int32_t zero = whole ? 0 : p->x_zero;
            const int8_t *w = ch->weights;
            for (int32_t o = 0, left = multiplier; o < win->out_c; ++o, --left, w += taps) {
                if (left == 0) {
                    left = multiplier;
                    ++first;
                }
                int32_t acc = ch->bias[o];
                if (!whole) {
                    acc += zero * mica_sum(w, taps);
                }
                if (any) {
                    const int8_t *x_row = first, *w_row = w + ky0 * kernel_w + kx0;
                    for (int32_t ky = ky0; ky < ky1; ++ky, x_row += row_step, w_row += kernel_w) {
                        const int8_t *x = x_row;
                        for (int32_t kx = 0; kx < kx1 - kx0; ++kx, x += tap_step) {
                            acc += (*x - zero) * w_row[kx];
                        }
                    }
                }
                *y++ = mica_requant_s8(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
            }
        }
    }
}

#endif

// 2-D convolution; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

mica_status_t mica_conv2d_s8_check(const mica_conv2d_s8_t *p, const char **what) {
    const mica_status_t status = mica_groups_check(&p->win, p->groups, what);
    return status != MICA_OK ? status : mica_act_check(p->ch.act_min, p->ch.act_max, what);
}

// Length of one output channel's weights.
static uint32_t reduction(const mica_conv2d_s8_t *p) {
    return (uint32_t)p->win.kernel_h * p->win.kernel_w * (p->win.in_c / p->groups);
}

size_t mica_conv2d_s8_weights_bytes(const mica_conv2d_s8_t *p) {
    return mica_weights_bytes(p->ch.layout, p->win.out_c, reduction(p));
}

uint32_t mica_conv2d_s8_channels(const mica_conv2d_s8_t *p) {
    return p->win.out_c;
}

mica_status_t mica_conv2d_s8_check_constants(const mica_conv2d_s8_t *p, const char **what) {
    return mica_channels_check(&p->ch, p->win.out_c, reduction(p), what);
}

uint32_t mica_conv2d_s8_rows(const mica_conv2d_s8_t *p) {
    return p->win.out_h;
}

// The same for rows of codes, one weight after the other.
static void codes_ref(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end) {
    const mica_window_t *win = &p->win;
    const mica_channels_t *ch = &p->ch;
    int32_t group_in = win->in_c / p->groups, group_out = win->out_c / p->groups;
    uint32_t row = mica_row_bytes(ch->layout, reduction(p));
    int8_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;
    for (int32_t oy = (int32_t)row_begin; oy < (int32_t)row_end; ++oy) {
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            for (int32_t o = 0; o < win->out_c; ++o) {
                const int8_t *codes = ch->weights + (size_t)o * row;
                int32_t acc = ch->bias[o];
                uint32_t at = 0;
                for (int32_t ky = 0; ky < win->kernel_h; ++ky) {
                    int32_t iy = oy * win->stride_h - win->pad_top + ky * win->dilation_h;
                    for (int32_t kx = 0; kx < win->kernel_w; ++kx) {
                        int32_t ix = ox * win->stride_w - win->pad_left + kx * win->dilation_w;
                        bool inside = iy >= 0 && iy < win->in_h && ix >= 0 && ix < win->in_w;
                        const int8_t *x = p->x;
                        if (inside) {
                            x += (iy * win->in_w + ix) * win->in_c + o / group_out * group_in;
                        }
                        for (int32_t i = 0; i < group_in; ++i, ++at) {
                            acc += (inside ? x[i] : p->x_zero) * mica_coded(ch->table, codes, at);
                        }
                    }
                }
                *y++ = mica_requant_s8(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
            }
        }
    }
}

void mica_conv2d_s8_ref(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    if (MICA_CODED(p->ch.layout)) {
        codes_ref(p, row_begin, row_end);
        return;
    }
    const mica_window_t *win = &p->win;
    const mica_channels_t *ch = &p->ch;
    int32_t in_c = win->in_c, kernel_h = win->kernel_h, kernel_w = win->kernel_w;
    int32_t group_in = in_c / p->groups, group_out = win->out_c / p->groups;
    // From tap to tap, in bytes of x. No two taps lie inside where the dilation is as large as the picture.
    int32_t row_step = win->dilation_h < win->in_h ? win->dilation_h * win->in_w * in_c : 0;
    int32_t tap_step = win->dilation_w < win->in_w ? win->dilation_w * in_c : 0;
    int32_t filling = (int32_t)(mica_row_bytes(p->ch.layout, reduction(p)) - reduction(p));
    bool contiguous = p->groups == 1 && win->dilation_w == 1;        // a row's taps lie side by side, as their weights
    int8_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;

    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, kernel_w, win->dilation_w, &kx0, &kx1);
            // First tap inside the image. It is formed only where there is one.
            const int8_t *first = p->x;
            if (ky0 < ky1 && kx0 < kx1) {
                first += ((iy + ky0 * win->dilation_h) * win->in_w + ix + kx0 * win->dilation_w) * in_c;
            }
            int32_t before = kx0 * group_in, inside = (kx1 - kx0) * group_in, after = (kernel_w - kx1) * group_in;
            const int8_t *w = ch->weights;
            for (int32_t o = 0, left = group_out; o < win->out_c; ++o, --left) {
                if (left == 0) {
                    left = group_out;
                    first += group_in;
                }
                int32_t acc = ch->bias[o];
                int32_t outside = mica_sum(w, ky0 * kernel_w * group_in);  // weights of the taps that read x_zero
                w += ky0 * kernel_w * group_in;
                const int8_t *x = first;
                for (int32_t ky = ky0; ky < ky1; ++ky, x += row_step) {
                    outside += mica_sum(w, before);
                    w += before;
                    if (contiguous) {
                        acc = mica_dot(acc, x, w, inside);
                        w += inside;
                    } else {
                        const int8_t *tap = x;
                        for (int32_t kx = kx0; kx < kx1; ++kx, tap += tap_step, w += group_in) {
                            acc = mica_dot(acc, tap, w, group_in);
                        }
                    }
                    outside += mica_sum(w, after);
                    w += after;
                }
                outside += mica_sum(w, (kernel_h - ky1) * kernel_w * group_in);
                w += (kernel_h - ky1) * kernel_w * group_in + filling;
                acc += p->x_zero * outside;
                *y++ = mica_requant_s8(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
            }
        }
    }
}

#endif

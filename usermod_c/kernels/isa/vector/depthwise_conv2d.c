// Depthwise convolution, a tap of all channels at a time, with the weights by tap. Bytes of scratch: 2 for each weight
// and 4 for each channel. With less, for more than one channel of y for each of x, and where c32 gives way, c32's runs.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "shape.h"

// sum[c] += x[c] * w[c]
static void add_tap(int32_t *restrict sum, const int8_t *restrict x, const int16_t *restrict w, uint32_t n) {
    for (uint32_t c = 0; c < n; ++c) {
        sum[c] += (int16_t)x[c] * w[c];
    }
}

// The same for a tap outside the image, where every x is `zero`.
static void add_zero(int32_t *restrict sum, int32_t zero, const int16_t *restrict w, uint32_t n) {
    for (uint32_t c = 0; c < n; ++c) {
        sum[c] += zero * w[c];
    }
}

void mica_depthwise_conv2d_s8_vector(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t n = w->in_c, taps = (uint32_t)w->kernel_h * w->kernel_w;
    const size_t needed = 4 * (size_t)n + 2 * (size_t)n * taps;
    if (w->out_c != n || !ch->fast || ch->layout != MICA_LAYOUT_PLAIN || scratch_bytes < needed) {
        mica_depthwise_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t *sum = scratch;
    int16_t *weights = (int16_t *)(void *)(sum + n);  // [taps, channels]
    for (uint32_t c = 0; c < n; ++c) {
        for (uint32_t t = 0; t < taps; ++t) {
            weights[t * n + c] = ch->weights[c * taps + t];
        }
    }
    int8_t *y = p->y + (size_t)row_begin * w->out_w * n;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        for (int32_t ox = 0; ox < w->out_w; ++ox, y += n) {
            for (uint32_t c = 0; c < n; ++c) {
                sum[c] = ch->bias[c];
            }
            const int16_t *at = weights;
            int32_t iy = (int32_t)oy * w->stride_h - w->pad_top;
            for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h) {
                int32_t ix = ox * w->stride_w - w->pad_left;
                for (int32_t kx = 0; kx < w->kernel_w; ++kx, ix += w->dilation_w, at += n) {
                    if (iy >= 0 && iy < w->in_h && ix >= 0 && ix < w->in_w) {
                        add_tap(sum, p->x + (size_t)(iy * w->in_w + ix) * n, at, n);
                    } else {
                        add_zero(sum, p->x_zero, at, n);
                    }
                }
            }
            for (uint32_t c = 0; c < n; ++c) {
                y[c] = mica_requant_fast(sum[c], ch->mult[c], ch->shift[c], ch->y_zero, ch->act_min, ch->act_max);
            }
        }
    }
}

#endif

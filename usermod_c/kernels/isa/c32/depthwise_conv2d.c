// Depthwise convolution with 3x3 taps: windows inside the image are read where they are, the others from a copy with
// what lies outside filled in. Bytes of scratch: 9 for each channel. All other windows go to the reference.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

// All channels of one pixel; x: the window's first tap, `pitch` bytes from row to row.
static void window(const mica_channels_t *ch, uint32_t channels, const int8_t *x, uint32_t pitch, int8_t *y) {
    const int8_t *w = ch->weights;
    const int32_t *bias = ch->bias, *mult = ch->mult;
    const int8_t *shift = ch->shift;
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    uint32_t two = 2 * channels;
    for (const int8_t *end = x + channels; x != end; ++x, w += 9) {
        const int8_t *row = x;
        int32_t acc = *bias++ + row[0] * w[0] + row[channels] * w[1] + row[two] * w[2];
        row += pitch;
        acc += row[0] * w[3] + row[channels] * w[4] + row[two] * w[5];
        row += pitch;
        acc += row[0] * w[6] + row[channels] * w[7] + row[two] * w[8];
        *y++ = mica_requant_s8(acc, *mult++, *shift++, zero, low, high);
    }
}

void mica_depthwise_conv2d_s8_c32(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    uint32_t channels = w->in_c;
    if (w->kernel_h != 3 || w->kernel_w != 3 || w->dilation_h != 1 || w->dilation_w != 1 || w->out_c != w->in_c
        || (size_t)9 * channels > scratch_bytes) {
        mica_depthwise_conv2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int8_t *y = p->y + (size_t)row_begin * w->out_w * w->out_c;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * w->stride_h - w->pad_top;
        for (int32_t ox = 0; ox < w->out_w; ++ox, y += channels) {
            int32_t ix = ox * w->stride_w - w->pad_left;
            if (iy >= 0 && iy + 3 <= w->in_h && ix >= 0 && ix + 3 <= w->in_w) {
                window(&p->ch, channels, p->x + (uint32_t)(iy * w->in_w + ix) * channels, w->in_w * channels, y);
                continue;
            }
            int8_t *to = scratch;
            for (int32_t ky = iy; ky < iy + 3; ++ky) {
                for (int32_t kx = ix; kx < ix + 3; ++kx, to += channels) {
                    if (ky >= 0 && ky < w->in_h && kx >= 0 && kx < w->in_w) {
                        mica_copy(to, p->x + (uint32_t)(ky * w->in_w + kx) * channels, channels);
                    } else {
                        mica_fill(to, p->x_zero, channels);
                    }
                }
            }
            window(&p->ch, channels, scratch, 3 * channels, y);
        }
    }
}

#endif

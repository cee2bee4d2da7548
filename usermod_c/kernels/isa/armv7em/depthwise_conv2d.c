// Depthwise convolution on a Cortex-M with DSP instructions: 3x3 taps with stride 1 or 2, four channels at a time
// (depthwise.S); all else goes to c32. Bytes of scratch: 32 for each column of the padded image, and 160.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

static uint32_t pair(int32_t low, int32_t high) {
    return ((uint32_t)low & 0xffff) | (uint32_t)high << 16;
}

// Channel o.
static void constants(const mica_channels_t *ch, uint32_t o, mica_dsp_taps_t *to) {
    const int8_t *w = ch->weights + 9 * o;
    int32_t bias = ch->bias[o];
    for (uint32_t i = 0; i < 3; ++i) {
        to->upper[i] = pair(w[i], w[3 + i]);
        to->lower[i] = pair(w[3 + i], w[6 + i]);
    }
    if (mica_dsp_requant(ch, o, &to->requant)) {
        bias *= 2;
        for (uint32_t i = 0; i < 3; ++i) {
            to->upper[i] = mica_dsp_doubled(to->upper[i]);
            to->lower[i] = mica_dsp_doubled(to->lower[i]);
        }
    }
    to->bias = bias;
}

static const int8_t *row_of(const mica_depthwise_conv2d_s8_t *p, int32_t row, uint32_t c) {
    const mica_window_t *w = &p->win;
    return row >= 0 && row < w->in_h ? p->x + (uint32_t)row * w->in_w * w->in_c + c : 0;
}

void mica_depthwise_conv2d_s8_armv7em(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t stride = w->stride_w, channels = w->in_c, rows = row_end - row_begin, strips = stride == 1 ? (rows + 1) / 2 : rows;
    uint32_t columns = (w->out_w - 1u) * stride + 3;
    uint32_t first = w->pad_left < columns ? w->pad_left : columns;
    uint32_t inside = columns - first < w->in_w ? columns - first : w->in_w;
    if (!ch->fast || w->kernel_h != 3 || w->kernel_w != 3 || w->stride_h != stride || stride > 2 || w->dilation_h != 1
        || w->dilation_w != 1 || channels != w->out_c || channels < 4 || rows == 0 || inside == 0
        || (uint64_t)32 * columns + 4 * sizeof(mica_dsp_taps_t) > scratch_bytes) {
        mica_depthwise_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    mica_dsp_taps_t *taps = scratch;
    uint32_t *planes = (uint32_t *)(void *)(taps + 4);
    uint32_t outside = pair(p->x_zero, p->x_zero), pitch = (uint32_t)w->out_w * channels;
    for (uint32_t i = 0; i < 8 * columns; ++i) {
        planes[i] = outside;
    }
    int8_t *y = p->y + (size_t)row_begin * pitch;
    mica_dsp_rows_t build = { .length = inside * channels, .step = channels, .plane = 4 * columns, .outside = outside };
    mica_dsp_depthwise_t args = { .plane = 4 * columns, .step = channels, .length = 4 * stride * w->out_w, .taps = taps };
    for (uint32_t c = 0;;) {
        for (uint32_t i = 0; i < 4; ++i) {
            constants(ch, c + i, taps + i);
        }
        int32_t row = (int32_t)(row_begin * stride) - w->pad_top;
        uint32_t *above = planes, *below = planes + 4 * columns;
        build.a = row_of(p, row, c);
        build.b = row_of(p, row + 1, c);
        build.to = above + first;
        mica_dsp_rows(&build);
        int8_t *to = y + c;
        for (uint32_t strip = 0; strip < strips; ++strip) {
            row += 2;
            build.a = row_of(p, row, c);
            build.b = row_of(p, row + 1, c);
            build.to = below + first;
            mica_dsp_rows(&build);
            args.a = above;
            args.b = below;
            args.y = to;
            if (stride == 1) {
                args.pitch = 2 * strip + 1 < rows ? pitch : 0;
                mica_dsp_depthwise1(&args);
                to += 2 * (size_t)pitch;
            } else {
                mica_dsp_depthwise2(&args);
                to += pitch;
            }
            uint32_t *swap = above;
            above = below;
            below = swap;
        }
        if (c + 4 == channels) {
            break;
        }
        c = c + 8 <= channels ? c + 4 : channels - 4;  // the last four may overlap those before
    }
    mica_dsp_clamp(ch, y, rows * pitch);
}

#endif

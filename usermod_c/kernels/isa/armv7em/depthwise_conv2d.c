// Depthwise convolution on a Cortex-M with DSP instructions: 3x3 taps with stride 1 or 2, four channels at a time
// (depthwise.S); all else goes to c32. Bytes of scratch: 160, and of each band of two rows 32 for two columns of the
// padded image. Two bands are enough; the more there are, the more strips assembly does at once.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

// The blocks of a band that have columns outside the image: all but `begin` to `end`.
static void fill(uint32_t *band, uint32_t begin, uint32_t end, uint32_t blocks, uint32_t outside) {
    for (uint32_t i = 0; i < blocks; ++i) {
        if (2 * i < begin || 2 * i + 2 > end) {
            for (uint32_t *to = band + 8 * i; to != band + 8 * i + 8; ++to) {
                *to = outside;
            }
        }
    }
}

typedef struct {
    uint32_t words[8];
} block_t;

static void copy(uint32_t *to, const uint32_t *from, uint32_t blocks) {
    block_t *t = (block_t *)(void *)to;
    const block_t *f = (const block_t *)(const void *)from;
    for (block_t *end = t + blocks; t != end;) {
        *t++ = *f++;
    }
}

static bool takes(const mica_depthwise_conv2d_s8_t *p) {
    return p->ch.fast && mica_window_is_3x3(&p->win, 2) && p->win.in_c == p->win.out_c && p->win.in_c >= 4;
}

void mica_depthwise_conv2d_s8_armv7em(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t stride = w->stride_w, channels = w->in_c, rows = row_end - row_begin,
        strips = stride == 1 ? (rows + 1) / 2 : rows;
    uint32_t columns = (w->out_w - 1u) * stride + 3, blocks = (columns + 1) / 2;
    uint32_t first = w->pad_left < columns ? w->pad_left : columns;
    uint32_t inside = columns - first < w->in_w ? columns - first : w->in_w;
    if (!takes(p) || rows == 0 || inside == 0
        || (uint64_t)64 * blocks + 4 * sizeof(mica_dsp_taps_t) > scratch_bytes) {
        mica_depthwise_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    mica_dsp_taps_t *taps = scratch;
    uint32_t *bands = (uint32_t *)(void *)(taps + 4);
    const uint32_t band = 8 * blocks, pitch = (uint32_t)w->out_w * channels;  // a band in words
    const uint32_t most = (uint32_t)((scratch_bytes - 4 * sizeof(mica_dsp_taps_t)) / (4 * band));
    const uint32_t held = most < strips + 1 ? most : strips + 1;  // bands, 2 or more
    const uint32_t words = ((uint32_t)p->x_zero & 0xffff) * 0x10001u;
    for (uint32_t i = 0; i < held; ++i) {
        fill(bands + i * band, first, first + inside, blocks, words);
    }
    const uint32_t outside = 0x01010101u * (uint8_t)p->x_zero, lead = first % 2, begin = first / 2 * 8 + lead;
    int8_t *y = p->y + (size_t)row_begin * pitch;
    mica_dsp_rows_t build = {
        .to = bands, .row = 0, .x = p->x, .step = channels, .height = w->in_h, .pitch = (uint32_t)w->in_w * channels,
        .lead = lead, .outside = &outside, .columns = inside - lead, .band = 4 * band, .bands = held,
    };
    mica_dsp_depthwise_t args = {
        .a = bands, .b = bands, .y = y, .step = channels, .pitch = pitch, .windows = w->out_w, .strips = strips,
        .last = pitch, .taps = taps,
    };
    const uint32_t down = stride == 1 ? 2 * pitch : pitch;  // from strip to strip
    for (uint32_t c = 0;;) {
        const mica_dsp_constants_t constants = {
            .w = ch->weights + 9 * c, .bias = ch->bias + c, .mult = ch->mult + c, .shift = ch->shift + c, .to = taps,
            .rounding = 2 * ch->y_zero + 1,
        };
        mica_dsp_constants(&constants);
        build.x = p->x + c;
        build.row = (int32_t)(row_begin * stride) - w->pad_top;
        build.to = bands + begin;
        build.bands = held;
        mica_dsp_rows(&build);
        args.a = bands;
        args.b = bands + band;
        args.y = y + c;
        for (uint32_t left = strips;;) {
            args.strips = left < held - 1 ? left : held - 1;
            left -= args.strips;
            args.last = left == 0 && rows % 2 ? 0 : pitch;
            if (stride == 1) {
                mica_dsp_depthwise1(&args);
            } else {
                mica_dsp_depthwise2(&args);
            }
            if (left == 0) {
                break;
            }
            // The last band becomes the first one; where there are two, without a copy.
            uint32_t *to = bands + band;
            args.y += (size_t)args.strips * down;
            if (held == 2) {
                to = args.a == bands ? bands : bands + band;
                args.a = args.b;
                args.b = to;
            } else {
                copy(bands, bands + args.strips * band, blocks);
            }
            build.to = to + begin;
            build.bands = left < held - 1 ? left : held - 1;
            mica_dsp_rows(&build);
        }
        if (c + 4 == channels) {
            break;
        }
        c = c + 8 <= channels ? c + 4 : channels - 4;  // the last four may overlap those before
    }
    mica_dsp_clamp(ch, y, rows * pitch);
}

#endif

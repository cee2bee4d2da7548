// Depthwise convolution, four channels at a time: they share pointers and counters. Windows inside the image are read
// where they are, those at its edge from a copy with what lies outside filled in: bytes of scratch for it, one for each
// tap and channel. One channel at a time goes what has less, channels beyond a multiple of four, and more than one
// channel of y for each of x. What does not claim FAST goes to the reference.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

// Where the taps of one pixel lie, those inside the image.
typedef struct {
    const int8_t *x;          // the first tap of channel 0
    uint32_t rows, columns;   // both 0 where there are none
    uint32_t tap, row;        // bytes from tap to tap and from row to row
    uint32_t first, skip;     // weights before the first tap, and between rows
    uint32_t taps;            // of the whole window
    int32_t x_zero;
} taps_t;

// Sums of four channels, of all taps. By itself, so that all of it has registers.
static __attribute__((noinline)) void four(int32_t *acc, const taps_t *t, const int8_t *x, const int8_t *w) {
    int32_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];
    uint32_t columns = t->columns, tap = t->tap, next = t->taps, rest = t->row - columns * tap;
    for (uint32_t r = t->rows; r; --r, x += rest) {
        for (const int8_t *end = w + columns; w != end; ++w, x += tap) {
            a += x[0] * w[0];
            b += x[1] * w[next];
            c += x[2] * w[2 * next];
            d += x[3] * w[3 * next];
        }
    }
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

// As whole_pixel with 3x3 taps, any number of channels: no loop over the taps.
static __attribute__((noinline)) void whole_3x3(const taps_t *t, const mica_channels_t *ch, uint32_t channels,
    int8_t *y) {
    const int8_t *w = ch->weights, *x = t->x, *shift = ch->shift;
    const int32_t *bias = ch->bias, *mult = ch->mult;
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    uint32_t tap = t->tap, two = 2 * tap, pitch = t->row;
    for (const int8_t *end = x + channels; x != end; ++x, w += 9) {
        const int8_t *row = x;
        int32_t acc = *bias++ + row[0] * w[0] + row[tap] * w[1] + row[two] * w[2];
        row += pitch;
        acc += row[0] * w[3] + row[tap] * w[4] + row[two] * w[5];
        row += pitch;
        acc += row[0] * w[6] + row[tap] * w[7] + row[two] * w[8];
        *y++ = mica_requant_fast(acc, *mult++, *shift++, zero, low, high);
    }
}

// All channels, a multiple of four, of a pixel whose taps are all there.
static void whole_pixel(const taps_t *t, const mica_channels_t *ch, uint32_t channels, int8_t *y) {
    const int8_t *w = ch->weights, *x = t->x, *shift = ch->shift;
    const int32_t *bias = ch->bias, *mult = ch->mult;
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    for (int8_t *end = y + channels; y != end; x += 4, w += 4 * t->taps, bias += 4, mult += 4, shift += 4, y += 4) {
        int32_t acc[4] = { bias[0], bias[1], bias[2], bias[3] };
        four(acc, t, x, w);
        for (uint32_t i = 0; i < 4; ++i) {
            y[i] = mica_requant_fast(acc[i], mult[i], shift[i], zero, low, high);
        }
    }
}

// Channels [begin, end) of x of one pixel, `each` of y for one of x. Every tap is first taken to read x_zero, which
// those inside the image take back.
static void single_channels(const taps_t *t, const mica_channels_t *ch, uint32_t begin, uint32_t end, uint32_t each,
    int8_t *y) {
    for (uint32_t o = begin * each; begin != end; ++begin) {
        for (uint32_t left = each; left; --left, ++o) {
            const int8_t *w = ch->weights + o * t->taps, *at = w + t->first, *row = t->x + begin;
            int32_t acc = ch->bias[o], outside = mica_sum(w, (int32_t)t->taps);
            for (uint32_t r = t->rows; r; --r, row += t->row, at += t->skip) {
                const int8_t *x = row;
                for (const int8_t *last = at + t->columns; at != last; ++at, x += t->tap) {
                    acc += *x * *at;
                    outside -= *at;
                }
            }
            acc += t->x_zero * outside;
            y[o] = mica_requant_fast(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
        }
    }
}

// The window whose first tap is at (iy, ix), all channels of it, side by side.
static void copy(const mica_depthwise_conv2d_s8_t *p, int32_t iy, int32_t ix, int8_t *to) {
    const mica_window_t *w = &p->win;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h) {
        int32_t at = ix;
        for (int32_t kx = 0; kx < w->kernel_w; ++kx, at += w->dilation_w, to += w->in_c) {
            if (iy >= 0 && iy < w->in_h && at >= 0 && at < w->in_w) {
                mica_copy(to, p->x + (uint32_t)(iy * w->in_w + at) * w->in_c, w->in_c);
            } else {
                mica_fill(to, p->x_zero, w->in_c);
            }
        }
    }
}

void mica_depthwise_conv2d_s8_c32(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    uint32_t channels = w->in_c, each = w->out_c / channels, several = each == 1 ? channels & ~3u : 0;
    bool small = each == 1 && w->kernel_h == 3 && w->kernel_w == 3;
    if (!p->ch.fast || p->ch.layout != MICA_LAYOUT_PLAIN) {
        mica_depthwise_conv2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t tap = (uint32_t)w->dilation_w * channels, row = (uint32_t)w->dilation_h * w->in_w * channels;
    taps_t t = { .taps = (uint32_t)w->kernel_h * w->kernel_w, .x_zero = p->x_zero };
    bool copies = each == 1 && t.taps * channels <= scratch_bytes;  // as many as there are weights
    int8_t *y = p->y + (size_t)row_begin * w->out_w * w->out_c;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * w->stride_h - w->pad_top, ky0, ky1;
        mica_taps(iy, w->in_h, w->kernel_h, w->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < w->out_w; ++ox, y += w->out_c) {
            int32_t ix = ox * w->stride_w - w->pad_left, kx0, kx1;
            mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
            t.columns = (uint32_t)(kx1 - kx0);
            t.rows = t.columns ? (uint32_t)(ky1 - ky0) : 0;
            t.tap = tap;
            t.row = row;
            t.first = t.skip = 0;
            t.x = p->x;
            if (t.rows * t.columns < t.taps && copies) {
                copy(p, iy, ix, scratch);
                t.x = scratch;
                // Rows side by side are one, but where three are needed.
                t.rows = small ? 3 : 1;
                t.columns = small ? 3 : t.taps;
                t.tap = channels;
                t.row = 3 * channels;
            } else if (t.rows) {  // formed only where there is one
                t.x += (uint32_t)((iy + ky0 * w->dilation_h) * w->in_w + ix + kx0 * w->dilation_w) * channels;
                t.first = (uint32_t)(ky0 * w->kernel_w + kx0);
                t.skip = w->kernel_w - t.columns;
            }
            bool whole = t.rows * t.columns == t.taps;
            if (whole && small) {
                whole_3x3(&t, &p->ch, channels, y);
                continue;
            }
            if (whole && t.columns == 1) {  // one row of taps, as far apart as rows
                t.columns = t.rows;
                t.rows = 1;
                t.tap = t.row;
            }
            uint32_t done = whole ? several : 0;
            whole_pixel(&t, &p->ch, done, y);
            single_channels(&t, &p->ch, done, channels, each, y);
        }
    }
}

#endif

// 2-D convolution: patches and weights as rows of 16 bits, two pixels by two channels at a time. Bytes of scratch: two
// rows of weights and two patches or more, each of 2 * k bytes. With less, in groups, and for codes of 4 bits c32's
// runs.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

static void widen(int16_t *restrict to, const int8_t *restrict from, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
        to[i] = from[i];
    }
}

static void fill(int16_t *to, int16_t value, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
        to[i] = value;
    }
}

typedef int16_t element_t;
#define copy widen
#include "../c32/patch.inc"

// acc[0], [1]: patch x with the rows w and t, [2], [3]: patch v with both.
static void dots(int32_t *acc, const int16_t *x, const int16_t *v, const int16_t *w, const int16_t *t, uint32_t k) {
    int32_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];
    for (uint32_t i = 0; i < k; ++i) {
        a += x[i] * w[i];
        b += x[i] * t[i];
        c += v[i] * w[i];
        d += v[i] * t[i];
    }
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

// All channels for `pixels` patches of k values each, one behind the other. rows: room for two rows of weights.
// c32 has the same loop, but its weights may be codes, and stay bytes: one text for both would say less of each.
static void gemm(const mica_channels_t *ch, uint32_t out_c, const int16_t *x, uint32_t k, uint32_t pixels, int8_t *y,
    int16_t *rows) {
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    const uint32_t stored = mica_row_bytes(ch->layout, k);
    const int8_t *from = ch->weights;
    for (uint32_t o = 0; o < out_c; o += 2, from += 2 * stored) {
        // Where there is no second pixel or channel the first one stands for it, and is stored twice.
        uint32_t other = o + 1 < out_c ? 1 : 0;
        widen(rows, from, k);
        widen(rows + k, from + other * stored, k);
        int32_t bias0 = ch->bias[o], bias1 = ch->bias[o + other];
        int32_t m0 = ch->mult[o], m1 = ch->mult[o + other], s0 = ch->shift[o], s1 = ch->shift[o + other];
        const int16_t *x0 = x;
        int8_t *to = y + o;
        for (uint32_t left = pixels; left;) {
            uint32_t pair = left > 1 ? 1 : 0;
            int32_t acc[4] = { bias0, bias1, bias0, bias1 };
            dots(acc, x0, x0 + pair * k, rows, rows + k, k);
            to[0] = mica_requant_s8(acc[0], m0, s0, zero, low, high);
            to[other] = mica_requant_s8(acc[1], m1, s1, zero, low, high);
            to += pair * out_c;
            to[0] = mica_requant_s8(acc[2], m0, s0, zero, low, high);
            to[other] = mica_requant_s8(acc[3], m1, s1, zero, low, high);
            to += out_c;
            x0 += 2 * k;
            left -= 1 + pair;
        }
    }
}

void mica_conv2d_s8_vector(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c;
    const size_t row = 2 * (size_t)k;
    uint32_t most = scratch_bytes < 4 * row ? 0 : (uint32_t)(scratch_bytes / row) - 2;
    if (p->groups != 1 || MICA_CODED(ch->layout) || most < 2) {
        mica_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int16_t *rows = scratch, *patches = rows + 2 * k;
    const bool direct = w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->pad_top == 0
        && w->pad_left == 0 && w->out_h <= w->in_h && w->out_w == w->in_w;
    uint32_t total = (row_end - row_begin) * w->out_w;
    const int8_t *x = p->x + (size_t)row_begin * w->in_w * w->in_c;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * w->out_c;
    int32_t oy = (int32_t)row_begin, ox = 0;
    while (total) {
        uint32_t n = total < most ? total : most & ~1u;
        if (direct) {
            widen(patches, x, n * k);
            x += n * k;
        }
        for (uint32_t i = 0; i < n && !direct; ++i) {
            patch(p, oy, ox, patches + i * k);
            if (++ox == w->out_w) {
                ox = 0;
                ++oy;
            }
        }
        gemm(ch, w->out_c, patches, k, n, y, rows);
        y += (size_t)n * w->out_c;
        total -= n;
    }
}

#endif

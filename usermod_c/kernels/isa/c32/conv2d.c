// 2-D convolution: patches as rows of bytes, then two pixels by two channels at a time, so that a loaded byte is used
// twice. A 1x1 kernel with stride 1 reads its patches where they are. Bytes of scratch elsewhere: two patches or more.
// Weights in CODES4 become bytes, two rows once for a tile: two rows of scratch more.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

typedef int8_t element_t;
#define copy mica_copy
#define fill mica_fill
#include "patch.inc"

// acc[0], [1]: x with w and the row behind it, [2], [3]: the patch `next` bytes behind x with both. By itself, so that
// all of it has registers; two pointers that move and two distances, because that is what cores have addressing for.
static __attribute__((noinline)) void dots(int32_t *acc, const int8_t *x, uint32_t next, const int8_t *w, uint32_t row,
    uint32_t k) {
    int32_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];
    const int8_t *end = x + (k & ~3u);
    #define STEP { \
        int32_t v = x[next], u = *x++, t = w[row], s = *w++; \
        a += u * s; \
        b += u * t; \
        c += v * s; \
        d += v * t; \
}
    while (x != end) {
        STEP
        STEP
        STEP
        STEP
    }
    for (end += k & 3; x != end;) {
        STEP
    }
    #undef STEP
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

// Codes of k weights, a multiple of four, as weights.
static void decode(int8_t *to, const int8_t *table, const int8_t *codes, uint32_t k) {
    const uint8_t *pair = (const uint8_t *)codes;
    for (int8_t *end = to + k; to != end; to += 4, pair += 2) {
        uint32_t a = pair[0], b = pair[1];
        to[0] = table[a & 15];
        to[1] = table[b & 15];
        to[2] = table[a >> 4];
        to[3] = table[b >> 4];
    }
}

// All channels for `pixels` patches of k bytes each, one behind the other. rows: room for two rows of codes as weights.
static void gemm(const mica_channels_t *ch, uint32_t out_c, const int8_t *x, uint32_t k, uint32_t pixels, int8_t *y,
    int8_t *rows) {
    int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    const bool codes = MICA_CODED(ch->layout);
    const uint32_t stored = mica_row_bytes(ch->layout, k), row = codes ? (k + 3) & ~3u : stored;
    const int8_t *from = ch->weights;
    for (uint32_t o = 0; o < out_c; o += 2, from += 2 * stored) {
        // Where there is no second pixel or channel the first one stands for it, and is stored twice.
        uint32_t other = o + 1 < out_c ? 1 : 0;
        const int8_t *w = from;
        if (codes) {
            decode(rows, ch->table, from, row);
            decode(rows + other * row, ch->table, from + other * stored, row);
            w = rows;
        }
        int32_t bias0 = ch->bias[o], bias1 = ch->bias[o + other];
        int32_t m0 = ch->mult[o], m1 = ch->mult[o + other], s0 = ch->shift[o], s1 = ch->shift[o + other];
        const int8_t *x0 = x;
        int8_t *to = y + o;
        for (uint32_t left = pixels; left;) {
            uint32_t pair = left > 1 ? 1 : 0;
            int32_t acc[4] = { bias0, bias1, bias0, bias1 };
            dots(acc, x0, pair * k, w, other * row, k);
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

void mica_conv2d_s8_c32(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c;
    const size_t decoded = MICA_CODED(ch->layout) ? 2 * (size_t)((k + 3) & ~3u) : 0;
    const bool direct = w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->pad_top == 0
        && w->pad_left == 0 && w->out_h <= w->in_h && w->out_w == w->in_w;
    uint32_t total = (row_end - row_begin) * w->out_w;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * w->out_c;
    uint32_t most = scratch_bytes < decoded ? 0 : (uint32_t)((scratch_bytes - decoded) / k);
    if (p->groups != 1 || (direct ? scratch_bytes < decoded : most < 2)) {
        mica_conv2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    if (direct) {
        gemm(ch, w->out_c, p->x + (size_t)row_begin * w->in_w * w->in_c, k, total, y, scratch);
        return;
    }
    int8_t *patches = (int8_t *)scratch + decoded;
    int32_t oy = (int32_t)row_begin, ox = 0;
    while (total) {
        uint32_t n = total < most ? total : most & ~1u;
        for (uint32_t i = 0; i < n; ++i) {
            patch(p, oy, ox, patches + i * k);
            if (++ox == w->out_w) {
                ox = 0;
                ++oy;
            }
        }
        gemm(ch, w->out_c, patches, k, n, y, scratch);
        y += (size_t)n * w->out_c;
        total -= n;
    }
}

#endif

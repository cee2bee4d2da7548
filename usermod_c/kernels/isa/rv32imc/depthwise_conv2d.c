// Depthwise convolution on RV32IM: 3x3 taps with stride 1 or 2. Of one channel at a time the rows that a strip of the
// output reads are gathered into a padded plane of bytes, over which depthwise.S runs. All else goes to c32. Bytes of
// scratch: one for each column of the padded image and row of the strip; three rows or more.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

// n bytes, `step` apart, side by side.
static inline void gather(int8_t *to, const int8_t *x, uint32_t n, uint32_t step) {
    for (; n >= 4; n -= 4, to += 4) {
        int8_t a = *x;
        x += step;
        int8_t b = *x;
        x += step;
        int8_t c = *x;
        x += step;
        int8_t d = *x;
        x += step;
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
    }
    for (; n; --n, x += step) {
        *to++ = *x;
    }
}

#define TOGETHER 4

// A word of four channels to `apart` bytes apart.
#define PUT(at, word) \
    do { \
        const uint32_t v = (word); \
        a[at] = (int8_t)v; \
        b[at] = (int8_t)(v >> 8); \
        c[at] = (int8_t)(v >> 16); \
        d[at] = (int8_t)(v >> 24); \
    } while (0)

// n words of four channels, `step` bytes apart, into four planes.
static void gather4(int8_t *a, uint32_t plane, const int8_t *x, uint32_t n, uint32_t step) {
    typedef uint32_t __attribute__((may_alias)) word_t;
    int8_t *b = a + plane, *c = b + plane, *d = c + plane;
    for (; n >= 4; n -= 4, a += 4, b += 4, c += 4, d += 4) {
        PUT(0, *(const word_t *)(const void *)x);
        x += step;
        PUT(1, *(const word_t *)(const void *)x);
        x += step;
        PUT(2, *(const word_t *)(const void *)x);
        x += step;
        PUT(3, *(const word_t *)(const void *)x);
        x += step;
    }
    for (; n; --n, x += step, ++a, ++b, ++c, ++d) {
        PUT(0, *(const word_t *)(const void *)x);
    }
}

static bool three_by_three(const mica_window_t *w) {
    return w->kernel_h == 3 && w->kernel_w == 3 && w->stride_h == w->stride_w && w->stride_w <= 2 && w->dilation_h == 1
        && w->dilation_w == 1 && w->in_c == w->out_c;
}

void mica_depthwise_conv2d_s8_rv32imc(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t stride = w->stride_w, channels = w->in_c, rows = row_end - row_begin;
    uint32_t columns = (w->out_w - 1u) * stride + 3;
    uint32_t first = w->pad_left < columns ? w->pad_left : columns;
    uint32_t inside = columns - first < w->in_w ? columns - first : w->in_w;
    if (!three_by_three(w) || rows == 0 || scratch_bytes / columns < 3 || !mica_rv32_takes(ch, channels)) {
        mica_depthwise_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const bool fours = channels % TOGETHER == 0 && mica_aligned4(p->x) && scratch_bytes / columns >= 5 * TOGETHER;
    const uint32_t n = fours ? TOGETHER : 1, room = (uint32_t)(scratch_bytes / columns) / n;
    uint32_t most = (room - 3) / stride + 1;  // rows of the output
    most = most < rows ? most : rows;
    const uint32_t plane_bytes = columns * ((most - 1) * stride + 3);
    mica_fill(scratch, p->x_zero, n * plane_bytes);
    size_t pitch = (size_t)w->out_w * channels;
    int8_t *y = p->y + row_begin * pitch;
    mica_rv32_depthwise_t args = {.step = channels, .next = stride * columns, .length = (uint32_t)pitch,
        .pitch = columns};
    for (uint32_t c = 0; c < channels; c += n) {
        for (uint32_t done = 0; done < rows; done += args.rows) {
            args.rows = rows - done < most ? rows - done : most;
            int32_t row = (int32_t)((row_begin + done) * stride) - w->pad_top;
            int8_t *to = (int8_t *)scratch + first;
            for (int32_t end = row + (int32_t)((args.rows - 1) * stride) + 3; row < end; ++row, to += columns) {
                const int8_t *x = p->x + (uint32_t)row * w->in_w * channels + c;
                if (row < 0 || row >= w->in_h) {
                    for (uint32_t i = 0; i < n; ++i) {
                        mica_fill(to + i * plane_bytes, p->x_zero, inside);
                    }
                } else if (fours) {
                    gather4(to, plane_bytes, x, inside, channels);
                } else {
                    gather(to, x, inside, channels);
                }
            }
            for (uint32_t i = 0; i < n; ++i) {
                mica_rv32_requant(ch, c + i, &args.requant);
                args.bias = ch->bias[c + i];
                args.weights = ch->weights + 9 * (c + i);
                args.x = (int8_t *)scratch + i * plane_bytes;
                args.y = y + done * pitch + c + i;
                if (stride == 1) {
                    mica_rv32_depthwise1(&args);
                } else {
                    mica_rv32_depthwise2(&args);
                }
            }
        }
    }
    mica_rv32_clamp(ch, y, (uint32_t)(rows * pitch));
}

#endif

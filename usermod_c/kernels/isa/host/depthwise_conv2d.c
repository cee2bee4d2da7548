// Depthwise convolution, eight channels at a time, two taps in one step; the last eight may overlap those before them. Bytes of scratch:
// the weights by taps (4 for each channel and pair of taps), addresses of the taps, and a row of what lies outside the image. With less,
// for fewer than eight channels or more than one of y for each of x, and for what does not claim FAST, vector's kernel runs.
#include "host.h"
#if defined(MICA_HOST_X86) && !defined(MICA_WITHOUT_DEPTHWISE_CONV2D_S8)

#include <string.h>

#include "shape.h"

#define WIDTH 8

// First channel of a block.
static inline uint32_t first(uint32_t block, uint32_t channels) {
    return (block + 1) * WIDTH <= channels ? block * WIDTH : channels - WIDTH;
}

// Weights as [blocks, pairs, WIDTH, 2].
static void pack(int16_t *to, const int8_t *weights, uint32_t channels, uint32_t taps) {
    for (uint32_t b = 0; b * WIDTH < channels; ++b) {
        const int8_t *from = weights + first(b, channels) * taps;
        for (uint32_t t = 0; t < taps; t += 2, to += 2 * WIDTH) {
            for (uint32_t c = 0; c < WIDTH; ++c) {
                to[2 * c] = from[c * taps + t];
                to[2 * c + 1] = t + 1 < taps ? from[c * taps + t + 1] : 0;
            }
        }
    }
}

// The taps of a pixel whose window lies inside between left and right edge: those of the pixel before it, `step` bytes on.
static void advance(const int8_t **taps, uint32_t n, size_t step, const int8_t *outside) {
    for (uint32_t t = 0; t < n; ++t) {
        taps[t] += taps[t] == outside ? 0 : step;
    }
}

// Where the taps of a pixel are; those outside the image at `outside`.
static void find(const mica_depthwise_conv2d_s8_t *p, int32_t oy, int32_t ox, const int8_t *outside, const int8_t **taps) {
    const mica_window_t *w = &p->win;
    int32_t iy = oy * w->stride_h - w->pad_top;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h) {
        int32_t ix = ox * w->stride_w - w->pad_left;
        for (int32_t kx = 0; kx < w->kernel_w; ++kx, ix += w->dilation_w) {
            const bool inside = iy >= 0 && iy < w->in_h && ix >= 0 && ix < w->in_w;
            *taps++ = inside ? p->x + (size_t)(iy * w->in_w + ix) * w->in_c : outside;
        }
    }
}

void mica_depthwise_conv2d_s8_host(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t n = w->in_c, taps = (uint32_t)w->kernel_h * w->kernel_w, pairs = (taps + 1) / 2, blocks = (n + WIDTH - 1) / WIDTH;
    const size_t packed = 4 * WIDTH * (size_t)pairs * blocks, addresses = 2 * (size_t)pairs * sizeof(void *);
    if (mica_host_choice() == MICA_HOST_VECTOR || w->out_c != n || n < WIDTH || !ch->fast || ch->layout != MICA_LAYOUT_PLAIN
        || scratch_bytes < packed + addresses + n + sizeof(void *)) {
        mica_depthwise_conv2d_s8_vector(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const int32_t reach = (w->kernel_w - 1) * w->dilation_w;
    const int8_t **at = (const int8_t **)(((uintptr_t)scratch + sizeof(void *) - 1) & ~(uintptr_t)(sizeof(void *) - 1));
    int16_t *weights = (int16_t *)(void *)(at + 2 * pairs);
    int8_t *outside = (int8_t *)weights + packed;
    pack(weights, ch->weights, n, taps);
    memset(outside, p->x_zero, n);
    at[2 * pairs - 1] = outside;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * n;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t ix = -(int32_t)w->pad_left;
        bool before = false;  // whether all columns of the last window were there
        for (int32_t ox = 0; ox < w->out_w; ++ox, ix += w->stride_w, y += n) {
            const bool whole = ix >= 0 && ix + reach < w->in_w;
            if (whole && before) {
                advance(at, taps, (size_t)w->stride_w * n, outside);
            } else {
                find(p, (int32_t)oy, ox, outside, at);
            }
            before = whole;
            mica_taps_avx2(ch, n, at, weights, taps, y);
        }
    }
}

#endif

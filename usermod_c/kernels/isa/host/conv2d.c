// 2-D convolution: patches and weights as words, in blocks of channels (gemm.c). Bytes of scratch: the words of 16 rows of weights,
// and a patch and its words for as many pixels as there is room for. With less, in groups, for codes of 4 bits and for factors
// above 1/2 vector's kernel runs.
#include "host.h"
#if defined(MICA_HOST_X86) && !defined(MICA_WITHOUT_CONV2D_S8)

#include <string.h>

#include "shape.h"

#define GROUP 24 // pixels: whole numbers of those that a block takes at a time
#define SPARE 16 // bytes behind the last patch that may be written

// n bytes; where `roomy`, as many more as make multiples of 16 may be read and written.
static inline void copy(int8_t *to, const int8_t *from, uint32_t n, bool roomy) {
    if (roomy) {
        for (uint32_t i = 0; i < n; i += 16) {
            memcpy(to + i, from + i, 16);
        }
    } else {
        memcpy(to, from, n);
    }
}

// The patch of one pixel, k values; what lies outside the image is x_zero.
static void patch(const mica_conv2d_s8_t *p, int32_t oy, int32_t ox, int8_t *to) {
    const mica_window_t *w = &p->win;
    int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left, in_c = w->in_c;
    int32_t kx0, kx1;
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    const uint32_t before = (uint32_t)(kx0 * in_c), inside = (uint32_t)((kx1 - kx0) * in_c);
    const uint32_t row = (uint32_t)w->kernel_w * w->in_c, end = (uint32_t)w->in_h * w->in_w * w->in_c;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h, to += row) {
        if (iy < 0 || iy >= w->in_h || inside == 0) {
            memset(to, p->x_zero, row);
            continue;
        }
        if (inside != row) {
            memset(to, p->x_zero, row);
        }
        const int32_t at = (iy * w->in_w + ix + kx0 * w->dilation_w) * in_c;
        const int8_t *x = p->x + at;
        if (w->dilation_w == 1) {
            copy(to + before, x, inside, inside == row && (uint32_t)at + row + SPARE <= end);
        } else {
            for (int32_t kx = kx0; kx < kx1; ++kx, x += w->dilation_w * in_c) {
                copy(to + kx * in_c, x, (uint32_t)in_c, false);
            }
        }
    }
}

void mica_conv2d_s8_host(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_host_t choice = mica_host_choice();
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c, steps = mica_steps(choice, k);
    const size_t packed = mica_packed_bytes(steps), one = 4 * (size_t)steps + k;
    if (choice == MICA_HOST_VECTOR || p->groups != 1 || MICA_CODED(ch->layout) || scratch_bytes < packed + one + SPARE
        || !mica_shifts_down(ch, w->out_c)) {
        mica_conv2d_s8_vector(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const mica_gemm_t g = { .ch = ch, .out_c = w->out_c, .k = k, .row = mica_row_bytes(ch->layout, k), .packed = scratch };
    uint32_t most = (uint32_t)((scratch_bytes - packed - SPARE) / one);
    most -= most > GROUP ? most % GROUP : 0;
    uint32_t *words = g.packed + packed / 4;
    int8_t *patches = (int8_t *)(words + most * steps);
    const bool direct = w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->pad_top == 0
        && w->pad_left == 0 && w->out_h <= w->in_h && w->out_w == w->in_w;
    const int8_t *x = p->x + (size_t)row_begin * w->in_w * w->in_c;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * w->out_c;
    int32_t oy = (int32_t)row_begin, ox = 0;
    for (uint32_t left = (row_end - row_begin) * w->out_w, n; left; left -= n, y += (size_t)n * w->out_c) {
        n = left < most ? left : most;
        for (uint32_t i = 0; i < n && !direct; ++i) {
            patch(p, oy, ox, patches + i * k);
            if (++ox == w->out_w) {
                ox = 0;
                ++oy;
            }
        }
        mica_words(choice, words, direct ? x : patches, k, n);
        x += direct ? (size_t)n * k : 0;
        mica_gemm(choice, &g, words, n, y);
    }
}

#endif

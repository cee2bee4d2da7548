// Transposed 2-D convolution; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_CONV_TRANSPOSE2D_S8

#include "requant.h"
#include "shape.h"

#define BLOCK 16  // output channels computed together, their first sums on the stack

mica_status_t mica_conv_transpose2d_s8_check(const mica_conv_transpose2d_s8_t *p, const char **what) {
    const mica_status_t status = mica_groups_check(&p->win, p->groups, what);
    return status != MICA_OK ? status : mica_act_check(p->ch.act_min, p->ch.act_max, what);
}

// Length of one output channel's weights.
static uint32_t reduction(const mica_conv_transpose2d_s8_t *p) {
    return (uint32_t)p->win.kernel_h * p->win.kernel_w * (p->win.in_c / p->groups);
}

size_t mica_conv_transpose2d_s8_weights_bytes(const mica_conv_transpose2d_s8_t *p) {
    return (size_t)p->win.out_c * reduction(p);
}

uint32_t mica_conv_transpose2d_s8_channels(const mica_conv_transpose2d_s8_t *p) {
    return p->win.out_c;
}

mica_status_t mica_conv_transpose2d_s8_check_constants(const mica_conv_transpose2d_s8_t *p, const char **what) {
    return mica_channels_check(&p->ch, p->win.out_c, reduction(p), what);
}

uint32_t mica_conv_transpose2d_s8_rows(const mica_conv_transpose2d_s8_t *p) {
    return p->win.out_h;
}

// One axis. Output position t, its pad added, is reached by tap k from input i where i * stride + k * dilation = t;
// with step_k = stride / gcd and step_i = dilation / gcd, the next such tap is k + step_k, from input i - step_i.
typedef struct {
    int32_t stride, dilation, kernel, size;  // size: of the input
    int32_t step_k, step_i;
} axis_t;

typedef struct {
    int32_t k, i, n;  // the first of n taps that read inside the input
} reach_t;

static axis_t axis_of(int32_t stride, int32_t dilation, int32_t kernel, int32_t size) {
    int32_t gcd = stride, rest = dilation;
    while (rest) {
        int32_t next = gcd % rest;
        gcd = rest;
        rest = next;
    }
    return (axis_t) { stride, dilation, kernel, size, stride / gcd, dilation / gcd };
}

// t <= 131070; k * dilation <= 2^30 (mica_window_check); skip * step_k <= t, as i <= t / stride.
static reach_t reach_of(const axis_t *a, int32_t t) {
    reach_t r = { 0, 0, 0 };
    int32_t candidates = a->step_k < a->kernel ? a->step_k : a->kernel;
    while (r.k < candidates && (t - r.k * a->dilation) % a->stride) {
        ++r.k;
    }
    r.i = (t - r.k * a->dilation) / a->stride;
    if (r.k == candidates || r.i < 0) {
        return r;
    }
    if (r.i >= a->size) {
        int32_t skip = (r.i - a->size) / a->step_i + 1;
        r.k += skip * a->step_k;
        r.i -= skip * a->step_i;
    }
    if (r.k < a->kernel && r.i >= 0) {
        int32_t by_taps = (a->kernel - 1 - r.k) / a->step_k, by_input = r.i / a->step_i;
        r.n = (by_taps < by_input ? by_taps : by_input) + 1;
    }
    return r;
}

void mica_conv_transpose2d_s8_ref(const mica_conv_transpose2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    const mica_channels_t *ch = &p->ch;
    int32_t in_c = win->in_c, out_c = win->out_c, kernel_w = win->kernel_w, zero = p->x_zero;
    int32_t group_in = in_c / p->groups, group_out = out_c / p->groups, length = (int32_t)reduction(p);
    axis_t rows = axis_of(win->stride_h, win->dilation_h, win->kernel_h, win->in_h);
    axis_t columns = axis_of(win->stride_w, win->dilation_w, kernel_w, win->in_w);

    for (int32_t begin = 0; begin < out_c; begin += BLOCK) {
        int32_t end = begin + BLOCK < out_c ? begin + BLOCK : out_c;
        // Every tap is first taken to read x_zero; then those that read the input exchange x_zero for x.
        int32_t first[BLOCK];
        for (int32_t o = begin; o < end; ++o) {
            first[o - begin] = ch->bias[o] + zero * mica_sum(ch->weights + (size_t)o * (size_t)length, length);
        }
        int32_t first_group = begin / group_out, first_left = group_out - begin % group_out;
        int8_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;
        for (uint32_t oy = row_begin; oy < row_end; ++oy) {
            reach_t v = reach_of(&rows, (int32_t)oy + win->pad_top);
            for (int32_t ox = 0; ox < win->out_w; ++ox, y += out_c) {
                reach_t h = reach_of(&columns, ox + win->pad_left);
                const int8_t *x = p->x + first_group * group_in, *w = ch->weights + (size_t)begin * (size_t)length;
                for (int32_t o = begin, left = first_left; o < end; ++o, --left, w += length) {
                    if (left == 0) {
                        left = group_out;
                        x += group_in;
                    }
                    int32_t acc = first[o - begin];
                    for (int32_t a = 0; a < v.n; ++a) {
                        int32_t ky = v.k + a * rows.step_k, iy = v.i - a * rows.step_i;
                        for (int32_t b = 0; b < h.n; ++b) {
                            int32_t kx = h.k + b * columns.step_k, ix = h.i - b * columns.step_i;
                            const int8_t *tap = x + (iy * win->in_w + ix) * in_c;
                            const int8_t *factor = w + (ky * kernel_w + kx) * group_in;
                            for (int32_t c = 0; c < group_in; ++c) {
                                acc += (tap[c] - zero) * factor[c];
                            }
                        }
                    }
                    y[o] = mica_requant_s8(acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
                }
            }
        }
    }
}

#endif

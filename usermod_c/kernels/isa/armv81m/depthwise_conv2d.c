// Depthwise convolution with MVE: 3x3 taps with stride 1 or 2 (depthwise.S); all else goes to armv7em. Rows of the
// image, three or four, are woven to words. Bytes of scratch for each channel that is done at once, four or more: 4 for
// each column of the padded image, and 21.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "shape.h"

#define ROWS 4

// n words of a byte of each row, n at least 4.
static void weave(const int8_t *const rows[ROWS], uint32_t n, uint32_t *to) {
    const int8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    uint32_t left = n;
    if (n >= 16) {
        uint32_t blocks = n / 16;
        left = n % 16;
        for (;;) {
            __asm__ volatile (
                "dls lr, %5\n"
                "1:\tvldrb.8 q0, [%0], #16\n\tvldrb.8 q1, [%1], #16\n\tvldrb.8 q2, [%2], #16\n\t"
                "vldrb.8 q3, [%3], #16\n\tvst40.8 {q0, q1, q2, q3}, [%4]\n\tvst41.8 {q0, q1, q2, q3}, [%4]\n\t"
                "vst42.8 {q0, q1, q2, q3}, [%4]\n\tvst43.8 {q0, q1, q2, q3}, [%4]!\n\tle lr, 1b"
                : "+r" (a), "+r" (b), "+r" (c), "+r" (d), "+r" (to) : "r" (blocks) : "lr", "q0", "q1", "q2", "q3",
                "memory");
            if (left == 0) {
                return;
            }
            const uint32_t back = 16 - left;  // the last sixteen may overlap those before
            a -= back;
            b -= back;
            c -= back;
            d -= back;
            to -= back;
            blocks = 1;
            left = 0;
        }
    }
    for (;;) {
        uint32x4_t words = vldrbq_u32((const uint8_t *)a);
        words = vsliq_n_u32(words, vldrbq_u32((const uint8_t *)b), 8);
        words = vsliq_n_u32(words, vldrbq_u32((const uint8_t *)c), 16);
        vstrwq_u32(to, vsliq_n_u32(words, vldrbq_u32((const uint8_t *)d), 24));
        if (left == 4) {
            return;
        }
        const uint32_t on = left >= 8 ? 4 : left - 4;
        a += on;
        b += on;
        c += on;
        d += on;
        to += on;
        left -= on;
    }
}

// The bits `keep` of n words, and those of `value`.
static void fill(uint32_t *to, uint32_t keep, uint32_t value, uint32_t n) {
    const uint32x4_t kept = vdupq_n_u32(keep), set = vdupq_n_u32(value);
    for (; n >= 4; n -= 4, to += 4) {
        vstrwq_u32(to, vorrq_u32(vandq_u32(vldrwq_u32(to), kept), set));
    }
    for (; n; --n, ++to) {
        *to = (*to & keep) | value;
    }
}

// Channels c to c + n - 1 of ROWS rows from `top` on, a word for each of `inside` columns and channel.
static void gather(const mica_depthwise_conv2d_s8_t *p, int32_t top, uint32_t c, uint32_t n, uint32_t inside,
    uint32_t *words) {
    const mica_window_t *w = &p->win;
    const uint32_t channels = w->in_c;
    const int8_t *rows[ROWS];
    for (int32_t i = 0; i < ROWS; ++i) {
        const int32_t row = top + i < 0 ? 0 : top + i < w->in_h ? top + i : w->in_h - 1;
        rows[i] = p->x + (uint32_t)row * w->in_w * channels + c;
    }
    uint32_t *to = words;
    if (n == channels) {
        weave(rows, inside * n, to);
    } else {
        for (uint32_t left = inside; left; --left, to += n) {
            weave(rows, n, to);
            for (uint32_t i = 0; i < ROWS; ++i) {
                rows[i] += channels;
            }
        }
    }
    for (int32_t i = 0; i < ROWS; ++i) {
        if (top + i < 0 || top + i >= w->in_h) {
            fill(words, ~(0xffu << 8 * i), (uint32_t)(uint8_t)p->x_zero << 8 * i, inside * n);
        }
    }
}

void mica_depthwise_conv2d_s8_armv81m(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t stride = w->stride_w, channels = w->in_c, columns = (w->out_w - 1u) * stride + 3,
        each = 4 * columns + 21;
    const uint32_t first = w->pad_left < columns ? w->pad_left : columns;
    const uint32_t inside = columns - first < w->in_w ? columns - first : w->in_w;
    if (!ch->fast || !mica_window_is_3x3(w, 2) || channels != w->out_c || channels < 4 || row_begin == row_end
        || inside == 0 || 4 * each > scratch_bytes) {
        mica_depthwise_conv2d_s8_armv7em(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const uint32_t most = scratch_bytes / each, pitch = (uint32_t)w->out_w * channels;
    uint32_t n = channels < most ? channels : most;
    for (uint32_t c = 0; c != channels; c += n) {
        if (n > channels - c) {
            n = channels - c > 4 ? channels - c : 4;
            c = channels - n;  // the last four may overlap those before
        }
        uint32_t *words = scratch;
        int8_t *taps = (int8_t *)(words + n * (columns + 1));
        int8_t *shifts = taps + 16 * n;
        fill(words, 0, 0x01010101u * (uint8_t)p->x_zero, n * (columns + 1));
        for (uint32_t i = 0; i < n; ++i) {
            const int8_t *from = ch->weights + 9 * (c + i);
            int8_t *to = taps + 16 * i;
            vstrbq_s8(to, vdupq_n_s8(0));
            for (uint32_t j = 0; j < 3; ++j, ++from, to += 4) {
                to[0] = from[0];
                to[1] = from[3];
                to[2] = from[6];
            }
            shifts[i] = -ch->shift[c + i];
        }
        mica_mve_depthwise_t args = {
            .zero = ch->y_zero, .low = ch->act_min, .high = ch->act_max, .column = 4 * n,
        };
        for (uint32_t oy = row_begin, count; oy < row_end; oy += count) {
            count = stride == 1 && oy + 1 < row_end ? 2 : 1;
            gather(p, (int32_t)(oy * stride) - w->pad_top, c, n, inside, words + first * n);
            // All fours of channels; then the last four once more, where there are others.
            for (uint32_t o = 0;;) {
                args.fours = o == 0 ? n / 4 : 1;
                args.y = p->y + (size_t)oy * pitch + c + o;
                args.second = count == 2 ? pitch : 0;
                args.next = channels - 4 * args.fours;
                args.pixels = w->out_w;
                args.x = words + o;
                args.step = 4 * stride * n - 16 * args.fours;
                args.taps = taps + 16 * o;
                args.shift = shifts + o;
                args.bias = ch->bias + c + o;
                args.mult = ch->mult + c + o;
                mica_mve_depthwise(&args);
                if (n % 4 == 0 || o) {
                    break;
                }
                o = n - 4;
            }
        }
    }
}

#endif

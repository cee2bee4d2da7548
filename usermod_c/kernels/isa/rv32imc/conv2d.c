// 2-D convolution on RV32IM: patches of a tile of pixels become a stream, four pixels word by word (gemm.S). Then all
// channels run over it, four at a time; weights are packed once for the tile. All other cases (groups,
// claims without FAST, shifts of 1, weights in another order, fewer than four channels or pixels, too little scratch)
// go to c32. Bytes of scratch: 8 for each element of a patch and 64, 4 for each element and group of four pixels, and
// one patch where they cannot be read from where they lie.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

typedef struct {
    const mica_conv2d_s8_t *p;
    int8_t *patch;         // of `words` words
    uint32_t words;        // of a patch
    bool direct;           // rows of x are words
    bool points;           // and patches are pixels, all of them inside the image
} source_t;

// `words` words at x to every fourth of `to`.
static inline mica_word_t *place(mica_word_t *to, const int8_t *x, uint32_t words) {
    const mica_word_t *from = (const mica_word_t *)(const void *)x;
    for (; words >= 4; words -= 4, to += 16, from += 4) {
        uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a;
        to[4] = b;
        to[8] = c;
        to[12] = d;
    }
    for (; words; --words, to += 4) {
        *to = *from++;
    }
    return to;
}

static inline mica_word_t *place_zeros(mica_word_t *to, uint32_t zeros, uint32_t words) {
    for (; words; --words, to += 4) {
        *to = zeros;
    }
    return to;
}

// The patch of one pixel, whose taps are words.
static void words(const source_t *s, int32_t iy, int32_t ix, mica_word_t *to) {
    const mica_window_t *w = &s->p->win;
    uint32_t tap = w->in_c / 4u, zeros = 0x01010101u * (uint8_t)s->p->x_zero;
    int32_t kx0, kx1;
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    uint32_t before = (uint32_t)kx0 * tap, inside = (uint32_t)(kx1 - kx0) * tap, row = w->kernel_w * tap;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h) {
        if (iy < 0 || iy >= w->in_h || inside == 0) {
            to = place_zeros(to, zeros, row);
            continue;
        }
        to = place_zeros(to, zeros, before);
        to = place(to, s->p->x + (iy * w->in_w + ix + kx0) * w->in_c, inside);
        to = place_zeros(to, zeros, row - before - inside);
    }
}

// `rows` rows of n bytes, of any alignment, side by side.
static void gather(int8_t *to, const int8_t *x, uint32_t n, uint32_t rows, uint32_t pitch) {
    for (; rows; --rows, x += pitch) {
        const int8_t *from = x, *end = x + (n & ~3u);
        for (; from != end; from += 4, to += 4) {
            int8_t a = from[0], b = from[1], c = from[2], d = from[3];
            to[0] = a;
            to[1] = b;
            to[2] = c;
            to[3] = d;
        }
        for (end = x + n; from != end;) {
            *to++ = *from++;
        }
    }
}

// The patch of one pixel as bytes. Behind it are zeros, against weights that are 0.
static void bytes(const source_t *s, int32_t iy, int32_t ix) {
    const mica_window_t *w = &s->p->win;
    int32_t in_c = w->in_c, kx0, kx1;
    int8_t *to = s->patch;
    uint32_t row = (uint32_t)w->kernel_w * w->in_c, pitch = (uint32_t)w->dilation_h * w->in_w * w->in_c;
    if (iy >= 0 && ix >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h && ix + w->kernel_w <= w->in_w
        && w->dilation_w == 1) {
        gather(to, s->p->x + (iy * w->in_w + ix) * in_c, row, w->kernel_h, pitch);
        return;
    }
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    uint32_t before = (uint32_t)(kx0 * in_c), inside = (uint32_t)((kx1 - kx0) * in_c);
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h) {
        if (iy < 0 || iy >= w->in_h || inside == 0) {
            mica_fill(to, s->p->x_zero, row);
            to += row;
            continue;
        }
        mica_fill(to, s->p->x_zero, before);
        to += before;
        const int8_t *x = s->p->x + (iy * w->in_w + ix + kx0 * w->dilation_w) * in_c;
        if (w->dilation_w == 1) {
            gather(to, x, inside, 1, 0);
            to += inside;
        } else {
            for (int32_t kx = kx0; kx < kx1; ++kx, x += (uint32_t)w->dilation_w * in_c, to += in_c) {
                mica_copy(to, x, (uint32_t)in_c);
            }
        }
        mica_fill(to, s->p->x_zero, row - before - inside);
        to += row - before - inside;
    }
}

// As unpack(), of patches that are pixels.
static void points(const source_t *s, int32_t oy, int32_t ox, uint32_t pixels, uint32_t *stream) {
    const mica_window_t *w = &s->p->win;
    const uint32_t across = (uint32_t)w->stride_w * w->in_c, down = (uint32_t)w->stride_h * w->in_w * w->in_c;
    const int8_t *row = s->p->x + (uint32_t)oy * down, *x = row + (uint32_t)ox * across;
    for (uint32_t fours = pixels / 4; fours; --fours, stream += 4 * s->words) {
        for (uint32_t i = 0; i < 4; ++i) {
            place(stream + i, x, s->words);
            x += across;
            if (++ox == w->out_w) {
                ox = 0;
                row += down;
                x = row;
            }
        }
    }
}

// The stream of `pixels` pixels, a multiple of four, from pixel `first` of the plane on.
static void unpack(const source_t *s, uint32_t first, uint32_t pixels, uint32_t *stream) {
    const mica_window_t *w = &s->p->win;
    int32_t oy = (int32_t)(first / w->out_w), ox = (int32_t)(first % w->out_w);
    if (s->points) {
        points(s, oy, ox, pixels, stream);
        return;
    }
    for (uint32_t i = 0; i < pixels; ++i) {
        int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left;
        mica_word_t *to = stream + i / 4 * 4 * s->words + i % 4;
        if (s->direct) {
            words(s, iy, ix, to);
        } else {
            bytes(s, iy, ix);
            place(to, s->patch, s->words);
        }
        if (++ox == w->out_w) {
            ox = 0;
            ++oy;
        }
    }
}

// As mica_rv32_weights, of four rows of codes.
static void codes(const mica_channels_t *ch, uint32_t o, uint32_t words_n, uint32_t *to) {
    const int8_t *table = ch->table;
    const uint32_t row = mica_row_bytes(ch->layout, 4 * words_n);
    const uint8_t *w = (const uint8_t *)ch->weights + (size_t)o * row, *w1 = w + row, *w2 = w1 + row, *w3 = w2 + row;
    for (uint32_t i = 0; i < 2 * words_n; ++i, to += i % 2 ? 2 : 6) {
        uint32_t a = w[i], b = w1[i], c = w2[i], d = w3[i];  // of each four elements 0 and 2, then 1 and 3
        to[0] = (uint32_t)table[a & 15] + ((uint32_t)table[b & 15] << 16);
        to[1] = (uint32_t)table[c & 15] + ((uint32_t)table[d & 15] << 16);
        to[4] = (uint32_t)table[a >> 4] + ((uint32_t)table[b >> 4] << 16);
        to[5] = (uint32_t)table[c >> 4] + ((uint32_t)table[d >> 4] << 16);
    }
}

// The constants and weights of channels o to o + 3.
static void four_channels(const mica_channels_t *ch, uint32_t o, uint32_t words_n, uint32_t *weight,
    uint32_t *weight_end) {
    mica_rv32_bias_t *bias = (mica_rv32_bias_t *)(void *)weight;
    mica_rv32_requant_t *requant = (mica_rv32_requant_t *)(void *)weight_end;
    for (uint32_t i = 0; i < 2; ++i) {
        uint32_t lower = (uint32_t)ch->bias[o + 2 * i], upper = (uint32_t)ch->bias[o + 2 * i + 1];
        bias[i].both = lower + (upper << 16);
        bias[i].upper = upper;
    }
    for (uint32_t i = 0; i < 4; ++i) {
        mica_rv32_requant(ch, o + i, requant + i);
    }
    if (MICA_CODED(ch->layout)) {
        codes(ch, o, words_n, weight + 4);
    } else {
        mica_rv32_weights(ch->weights + o * 4 * words_n, 4 * words_n, words_n, weight + 4);
    }
}

static bool takes(const mica_conv2d_s8_t *p) {
    return p->groups == 1 && p->ch.layout != MICA_LAYOUT_PLAIN && mica_aligned4(p->ch.weights) && p->win.out_c >= 4;
}

static source_t source_of(const mica_conv2d_s8_t *p, uint32_t words) {
    const mica_window_t *w = &p->win;
    source_t s = { .p = p, .words = words };
    s.direct = w->in_c % 4 == 0 && mica_aligned4(p->x) && (w->dilation_w == 1 || w->kernel_w == 1);
    s.points = s.direct && w->kernel_h == 1 && w->kernel_w == 1 && w->pad_top == 0 && w->pad_left == 0
        && (w->out_h - 1) * w->stride_h < w->in_h && (w->out_w - 1) * w->stride_w < w->in_w;
    return s;
}

void mica_conv2d_s8_rv32imc(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
#ifndef MICA_WITHOUT_WINOGRAD
    if (mica_conv2d_winograd_rv32imc(p, row_begin, row_end, scratch, scratch_bytes)) {
        return;
    }
#endif
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c, words_n = (k + 3) / 4;
    uint32_t total = (row_end - row_begin) * w->out_w, out_c = w->out_c;
    source_t s = source_of(p, words_n);
    uint64_t fixed = (uint64_t)64 + 32 * words_n + (s.direct ? 0 : 4 * words_n), group_bytes = (uint64_t)16 * words_n;
    if (!takes(p) || total < 4
        || fixed + group_bytes > scratch_bytes || !mica_rv32_takes(ch, out_c)) {
        mica_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t *weight = scratch, *weight_end = weight + 4 + 8 * words_n;
    s.patch = (int8_t *)(weight_end + 12);
    uint32_t *stream = weight + fixed / 4;
    if (!s.direct) {
        stream[-1] = 0;  // what fills the last word of the patch
    }
    // As few tiles as fit, of about the same size; the last group may overlap the one before.
    uint32_t most = (uint32_t)((scratch_bytes - fixed) / group_bytes), groups = (total + 3) / 4,
        tiles = (groups + most - 1) / most;
    for (uint32_t at = 0; tiles; --tiles) {
        uint32_t n = (groups + tiles - 1) / tiles, left = total - at;
        groups -= n;
        uint32_t even = 4 * n <= left ? 4 * n : 4 * (n - 1);  // pixels in whole groups
        uint32_t first = row_begin * w->out_w + at;
        unpack(&s, first, even, stream);
        uint32_t overlap = even == 4 * n ? 0 : 4 * n - left;
        if (overlap) {
            unpack(&s, first + left - 4, 4, stream + even * words_n);
        }
        int8_t *y = p->y + (size_t)first * out_c;
        mica_rv32_gemm_t args = { .w = weight, .w_end = weight_end, .step = out_c };
        for (uint32_t o = 0;;) {
            four_channels(ch, o, words_n, weight, weight_end);
            args.x = stream;
            args.x_end = stream + even * words_n;
            args.y = y + o;
            if (even) {
                mica_rv32_gemm(&args);
            }
            if (overlap) {
                args.x = args.x_end;
                args.x_end += 4 * words_n;
                args.y = y + (size_t)(left - 4) * out_c + o;
                mica_rv32_gemm(&args);
            }
            if (o + 4 == out_c) {
                break;
            }
            o = o + 8 <= out_c ? o + 4 : out_c - 4;  // the last four may overlap those before
        }
        uint32_t done = overlap ? left : even;
        mica_rv32_clamp(ch, overlap && left < 4 ? y - (size_t)(4 - left) * out_c : y,
            (overlap && left < 4 ? 4 : done) * out_c);
        at += done;
    }
}

#endif

// 2-D convolution on a Cortex-M with DSP instructions: the patches of a tile of pixels become a stream of int16 pairs
// (gemm.S), then all channels run over it, four at a time, whose weights become pairs once for the tile. What the fast
// kernel does not take (groups, claims without FAST, weights in another order, fewer than four channels, too little
// scratch) goes to c32. Bytes of scratch: 8 for each element of a patch and 64, 4 for each element and pair of pixels,
// and two or four patches where they cannot be read from where they lie.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

#define PATCHES 4  // that are copied before they are unpacked, where they cannot be read from where they lie

typedef struct {
    const mica_conv2d_s8_t *p;
    int8_t *patches;       // PATCHES, of `words` words
    uint32_t words;        // of a patch
    uint32_t row_bytes;    // of a row of it
    bool direct;           // rows of patches inside the image are words, wherever they lie
} source_t;

// `rows` rows of n bytes, of any alignment, n >= 1, `pitch` apart, to rows `to_pitch` apart.
static void gather(int8_t *to, const int8_t *x, uint32_t n, uint32_t rows, uint32_t pitch, uint32_t to_pitch) {
    if (n < 4) {
        for (; rows; --rows, x += pitch, to += to_pitch) {
            to[0] = x[0];
            to[n / 2] = x[n / 2];
            to[n - 1] = x[n - 1];
        }
        return;
    }
    const uint32_t last = n - 4;  // the last word overlaps the one before
    if (n <= 12) {  // what first layers have
        const uint32_t middle = n <= 8 ? last : 4;
        for (; rows; --rows, x += pitch, to += to_pitch) {
            uint32_t a, b, c;
            __builtin_memcpy(&a, x, 4);
            __builtin_memcpy(&b, x + middle, 4);
            __builtin_memcpy(&c, x + last, 4);
            __builtin_memcpy(to, &a, 4);
            __builtin_memcpy(to + middle, &b, 4);
            __builtin_memcpy(to + last, &c, 4);
        }
        return;
    }
    for (; rows; --rows, x += pitch, to += to_pitch) {
        for (uint32_t i = 0; i < last; i += 4) {
            __builtin_memcpy(to + i, x + i, 4);
        }
        __builtin_memcpy(to + last, x + last, 4);
    }
}

// The patch of one pixel as bytes; what lies outside the image is x_zero. Behind it, up to a word, are zeros: weights
// there are 0, but codes may be any.
static void patch(const mica_conv2d_s8_t *p, int32_t iy, int32_t ix, int8_t *to) {
    const mica_window_t *w = &p->win;
    int32_t in_c = w->in_c, kx0, kx1, ky0, ky1;
    uint32_t row = (uint32_t)w->kernel_w * w->in_c, pitch = (uint32_t)w->dilation_h * w->in_w * w->in_c;
    if (iy >= 0 && ix >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h && ix + w->kernel_w <= w->in_w
        && w->dilation_w == 1) {
        gather(to, p->x + (iy * w->in_w + ix) * in_c, row, w->kernel_h, pitch, row);
        return;
    }
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    mica_taps(iy, w->in_h, w->kernel_h, w->dilation_h, &ky0, &ky1);
    mica_word_t *fill = (mica_word_t *)(void *)to, outside = 0x01010101u * (uint8_t)p->x_zero;
    const uint32_t bytes = row * w->kernel_h;
    for (mica_word_t *end = fill + bytes / 4; fill != end;) {
        *fill++ = outside;
    }
    if (bytes % 4) {
        *fill = outside >> (32 - 8 * (bytes % 4));
    }
    if (kx0 >= kx1 || ky0 >= ky1) {
        return;
    }
    to += (uint32_t)ky0 * row + (uint32_t)(kx0 * in_c);
    const int8_t *x = p->x + ((iy + ky0 * w->dilation_h) * w->in_w + ix + kx0 * w->dilation_w) * in_c;
    if (w->dilation_w == 1) {
        gather(to, x, (uint32_t)((kx1 - kx0) * in_c), (uint32_t)(ky1 - ky0), pitch, row);
        return;
    }
    for (; ky0 < ky1; ++ky0, to += row, x += pitch) {
        const int8_t *from = x;
        int8_t *at = to;
        for (int32_t kx = kx0; kx < kx1; ++kx, from += (uint32_t)w->dilation_w * in_c, at += in_c) {
            mica_copy(at, from, (uint32_t)in_c);
        }
    }
}

// Where a pixel's patch can be read, and how far it is from row to row there.
static const int8_t *find(const source_t *s, int32_t oy, int32_t ox, uint32_t which, int32_t *pitch) {
    const mica_window_t *w = &s->p->win;
    int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left;
    if (iy >= 0 && ix >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h && ix + w->kernel_w <= w->in_w) {
        *pitch = (int32_t)((uint32_t)w->dilation_h * w->in_w * w->in_c);
        return s->p->x + (iy * w->in_w + ix) * w->in_c;
    }
    int8_t *to = s->patches + which * 4 * s->words;
    patch(s->p, iy, ix, to);
    *pitch = (int32_t)s->row_bytes;
    return to;
}

// Pairs of pixels from column ox on, of `pixels` in all, whose patches lie inside the row.
static uint32_t pairs_inside(const mica_window_t *w, int32_t ox, int32_t ix, uint32_t pixels) {
    const int32_t room = w->in_w - w->kernel_w - ix;
    if (room < 0) {
        return 0;
    }
    uint32_t n = (uint32_t)room / w->stride_w + 1, left = (uint32_t)(w->out_w - ox);
    n = n < left ? n : left;
    return (n < pixels ? n : pixels) / 2;
}

// The stream of `pairs` pairs of pixels of 3x3 taps over three channels, all inside.
static void unpack_rgb(const source_t *s, int32_t iy, int32_t ix, uint32_t pairs, uint32_t *stream) {
    const mica_window_t *w = &s->p->win;
    const int32_t step = 3 * w->stride_w;
    const uint32_t pitch = 3 * (uint32_t)w->dilation_h * w->in_w;
    const int8_t *x = s->p->x + 3 * (iy * w->in_w + ix);
    const mica_dsp_unpack27_t args = {
        .x0 = x, .x1 = x + step, .to = stream, .pairs = pairs, .pitch = pitch, .next = 2 * step - 2 * (int32_t)pitch,
    };
    mica_dsp_unpack27(&args);
}

// The same as unpack, by way of copies.
static void unpack_copies(const source_t *s, int32_t oy, int32_t ox, uint32_t pixels, uint32_t *stream) {
    const mica_window_t *w = &s->p->win;
    uint32_t patch_bytes = 4 * s->words;
    mica_dsp_unpack_t args = {
        .to = stream, .words = s->words, .rows = 1, .next0 = (int32_t)patch_bytes, .next1 = (int32_t)patch_bytes,
    };
    int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left;
    const bool rgb = s->row_bytes == 9 && w->kernel_h == 3 && w->kernel_w == 3 && w->dilation_w == 1;
    while (pixels) {
        uint32_t n = pixels < PATCHES ? pixels : PATCHES;
        if (rgb && iy >= 0 && iy + 2 * w->dilation_h < w->in_h) {
            const uint32_t pairs = ix < 0 ? 0 : pairs_inside(w, ox, ix, pixels);
            if (pairs) {
                unpack_rgb(s, iy, ix, pairs, args.to);
                args.to += 4 * s->words * pairs;
                pixels -= 2 * pairs;
                ox += 2 * (int32_t)pairs;
                ix += 2 * (int32_t)pairs * w->stride_w;
                if (ox == w->out_w) {
                    ox = 0;
                    ix = -w->pad_left;
                    iy += w->stride_h;
                }
                continue;
            }
            n = n < 2 ? n : 2;
        }
        int8_t *to = s->patches;
        // Those that lie inside the image, side by side.
        uint32_t inside = 0;
        if (w->dilation_w == 1 && iy >= 0 && ix >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h
            && ix + (int32_t)(n - 1) * w->stride_w + w->kernel_w <= w->in_w && ox + (int32_t)n < w->out_w) {
            const int8_t *x = s->p->x + (iy * w->in_w + ix) * w->in_c;
            for (; inside < n; ++inside, to += patch_bytes, x += w->stride_w * w->in_c) {
                gather(to, x, s->row_bytes, w->kernel_h, (uint32_t)w->dilation_h * w->in_w * w->in_c, s->row_bytes);
            }
            ix += (int32_t)n * w->stride_w;
            ox += (int32_t)n;
        }
        for (uint32_t i = inside; i < n; ++i, to += patch_bytes) {
            patch(s->p, iy, ix, to);
            ix += w->stride_w;
            if (++ox == w->out_w) {
                ox = 0;
                ix = -w->pad_left;
                iy += w->stride_h;
            }
        }
        args.x0 = s->patches;
        args.x1 = s->patches + patch_bytes;
        args.pairs = n / 2;
        if (n > 1) {
            mica_dsp_unpack(&args);
            args.to += 4 * s->words * args.pairs;
        }
        if (n % 2) {
            args.x0 = args.x1 = to - patch_bytes;
            args.pairs = 1;
            mica_dsp_unpack(&args);
        }
        pixels -= n;
    }
}

// The stream of `pixels` pixels from (oy, ox) on; the last of an odd number twice.
static void unpack(const source_t *s, int32_t oy, int32_t ox, uint32_t pixels, uint32_t *stream) {
    if (!s->direct) {
        unpack_copies(s, oy, ox, pixels, stream);
        return;
    }
    const mica_window_t *w = &s->p->win;
    uint32_t rows = w->kernel_h;
    int32_t row_bytes = (int32_t)s->row_bytes;
    mica_dsp_unpack_t args = { .to = stream, .words = s->row_bytes / 4, .rows = rows };
    while (pixels) {
        int32_t pitch0, pitch1;
        args.x0 = find(s, oy, ox, 0, &pitch0);
        args.pairs = 1;
        bool last = pixels == 1;
        int32_t oy1 = oy, ox1 = ox + 1;
        if (ox1 == w->out_w) {
            ox1 = 0;
            ++oy1;
        }
        if (last) {
            args.x1 = args.x0;
            pitch1 = pitch0;
        } else {
            args.x1 = find(s, oy1, ox1, 1, &pitch1);
        }
        if (!last && oy1 == oy && args.x0 != s->patches && args.x1 == args.x0 + w->stride_w * w->in_c) {
            // Both where they lie: so are those to the right that are inside as well.
            args.pairs = pairs_inside(w, ox, ox * w->stride_w - w->pad_left, pixels);
        }
        args.adjust0 = pitch0 - row_bytes;
        args.adjust1 = pitch1 - row_bytes;
        args.next0 = 2 * w->stride_w * w->in_c - (int32_t)rows * pitch0;
        args.next1 = 2 * w->stride_w * w->in_c - (int32_t)rows * pitch1;
        mica_dsp_unpack(&args);
        args.to += 4 * args.words * rows * args.pairs;
        if (last) {
            return;
        }
        pixels -= 2 * args.pairs;
        ox += 2 * (int32_t)args.pairs;
        if (ox >= w->out_w) {
            ox -= w->out_w;
            ++oy;
        }
        while (ox >= w->out_w) {  // planes of one column
            ox -= w->out_w;
            ++oy;
        }
    }
}

// As mica_dsp_weights, of four rows of codes.
static void codes(const int8_t *w, uint32_t row, uint32_t words, uint32_t *to, const uint32_t *pairs) {
    for (; words; --words, w += 2, to += 8) {
        uint32_t a = mica_dsp_codes(w), b = mica_dsp_codes(w + row), c = mica_dsp_codes(w + 2 * row),
            d = mica_dsp_codes(w + 3 * row);
        to[0] = pairs[a & 255];
        to[1] = pairs[b & 255];
        to[2] = pairs[c & 255];
        to[3] = pairs[d & 255];
        to[4] = pairs[a >> 8];
        to[5] = pairs[b >> 8];
        to[6] = pairs[c >> 8];
        to[7] = pairs[d >> 8];
    }
}

// Four channels from o on: bias, pairs, requantisation. pairs: of codes; null: the weights are bytes.
static void weights(const mica_channels_t *ch, uint32_t o, uint32_t words, uint32_t *w, uint32_t *w_end,
    const uint32_t *pairs) {
    const uint32_t row = mica_row_bytes(ch->layout, 4 * words);
    if (pairs != NULL) {
        codes(ch->weights + o * row, row, words, w + 4, pairs);
    } else {
        mica_dsp_weights(ch->weights + o * row, row, words, w + 4);
    }
    const mica_dsp_requants_t args = {
        .bias = ch->bias + o, .mult = ch->mult + o, .shift = ch->shift + o, .rounding = 2 * ch->y_zero + 1, .start = w,
        .to = (mica_dsp_requant_t *)(void *)w_end,
    };
    for (uint32_t doubled = mica_dsp_requants(&args); doubled; doubled >>= 1, ++w) {
        if (doubled & 1) {
            *w *= 2;
            for (uint32_t *pair = w + 4; pair < w_end; pair += 4) {
                *pair = mica_dsp_doubled(*pair);
            }
        }
    }
}

#define MOST 8  // pairs of channels whose sums are kept at once

// Where scratch holds no weights of four channels beside their patches: two pixels at a time, whose weights are read as
// they are stored. stream: null where the patches stay bytes, for want of scratch.
static void thin(const source_t *s, uint32_t first, uint32_t total, uint32_t *stream) {
    const mica_window_t *w = &s->p->win;
    const mica_channels_t *ch = &s->p->ch;
    const uint32_t out_c = w->out_c, row = 4 * s->words;
    const int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    int8_t *y = s->p->y + (size_t)first * out_c;
    mica_dsp_thin_t args = { .x = stream, .x_end = stream + 4 * s->words, .row = row };
    if (stream == NULL) {
        args.x = s->patches;
        args.x_end = s->patches + row;
    }
    for (uint32_t at = 0; at < total; at += 2, y += 2 * out_c) {
        const uint32_t second = at + 1 < total ? 1 : 0, here = first + at, next = here + second;
        if (stream != NULL) {
            unpack(s, (int32_t)(here / w->out_w), (int32_t)(here % w->out_w), 1 + second, stream);
        } else {
            patch(s->p, (int32_t)(here / w->out_w) * w->stride_h - w->pad_top,
                (int32_t)(here % w->out_w) * w->stride_w - w->pad_left, s->patches);
            patch(s->p, (int32_t)(next / w->out_w) * w->stride_h - w->pad_top,
                (int32_t)(next % w->out_w) * w->stride_w - w->pad_left, s->patches + row);
        }
        for (uint32_t o = 0; o < out_c;) {
            int32_t sums[4 * MOST];
            const uint32_t left = (out_c - o) / 2;
            o = left == 0 ? out_c - 2 : o;  // the last two may overlap those before
            args.pairs = left == 0 ? 1 : left < MOST ? left : MOST;
            args.w = ch->weights + (size_t)o * row;
            args.sums = sums;
            if (stream != NULL) {
                mica_dsp_thin(&args);
            } else {
                mica_dsp_thin_bytes(&args);
            }
            const uint32_t end = o + 2 * args.pairs;
            for (const int32_t *sum = sums; o < end; sum += 2) {
                for (uint32_t i = 0; i < 2; ++i, ++o, ++sum) {
                    const int32_t bias = ch->bias[o], mult = ch->mult[o], shift = ch->shift[o];
                    y[second * out_c + o] = mica_dsp_requantised(sum[2] + bias, mult, shift, zero, low, high);
                    y[o] = mica_dsp_requantised(sum[0] + bias, mult, shift, zero, low, high);
                }
            }
        }
    }
}

// All channels of a stream of pixels.
static void run_pixels(const source_t *s, const uint32_t *stream, uint32_t pixels, int8_t *y, uint32_t *weight,
    uint32_t *weight_end, const uint32_t *pairs) {
    const mica_channels_t *ch = &s->p->ch;
    const uint32_t words = s->words, out_c = s->p->win.out_c;
    mica_dsp_gemm_t args = { .x = stream, .w = weight, .w_end = weight_end, .words = words, .step = out_c };
    for (uint32_t o = 0;;) {
        weights(ch, o, words, weight, weight_end, pairs);
        args.x = stream;
        args.x_end = stream + pixels / 2 * 4 * words;
        args.y = y + o;
        if (pixels > 1) {
            mica_dsp_gemm(&args);
        }
        if (pixels % 2) {
            args.x = args.x_end;
            args.x_end += 4 * words;
            args.y = y + o + (size_t)(pixels - 1) * out_c;
            mica_dsp_gemm1(&args);
        }
        if (o + 4 == out_c) {
            break;
        }
        o = o + 8 <= out_c ? o + 4 : out_c - 4;  // the last four may overlap those before
    }
    mica_dsp_clamp(ch, y, pixels * out_c);
}

static bool takes(const mica_conv2d_s8_t *p) {
    return p->ch.fast && p->groups == 1 && p->ch.layout != MICA_LAYOUT_PLAIN && mica_aligned4(p->ch.weights)
        && p->win.out_c >= 4;
}

void mica_conv2d_s8_armv7em(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
#if !defined(MICA_WITHOUT_WINOGRAD) && !defined(__ARM_FEATURE_MVE)
    if (mica_conv2d_winograd_armv7em(p, row_begin, row_end, scratch, scratch_bytes)) {
        return;
    }
#endif
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c, words = (k + 3) / 4;
    uint32_t total = (row_end - row_begin) * w->out_w, out_c = w->out_c;
    source_t s = { .p = p, .words = words, .row_bytes = (uint32_t)w->kernel_w * w->in_c };
    s.direct = s.row_bytes % 4 == 0 && (w->dilation_w == 1 || w->kernel_w == 1);
    bool inside = mica_window_is_inside(w);
    // In bytes; K is at most 2^31 / 4 where there are four channels.
    const bool coded = MICA_CODED(ch->layout);
    const uint32_t table = coded ? 4 * MICA_CODE_PAIRS : 0;
    uint64_t fixed = (uint64_t)64 + 32 * words + (!s.direct ? 4 * PATCHES * words : inside ? 0 : 8 * words),
        pair_bytes = (uint64_t)16 * words;
    if (!takes(p) || total == 0
        || (coded ? table + fixed + pair_bytes : (uint64_t)8 * words) > scratch_bytes) {
        mica_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    if (!coded && fixed + 2 * pair_bytes > scratch_bytes) {
        const bool streamed = (s.direct && inside ? 0 : (uint64_t)8 * words) + pair_bytes <= scratch_bytes;
        s.patches = scratch;
        if (!s.direct) {
            ((mica_word_t *)scratch)[words - 1] = 0;
            ((mica_word_t *)scratch)[2 * words - 1] = 0;
        }
        thin(&s, row_begin * w->out_w, total, !streamed ? NULL
            : (uint32_t *)scratch + (s.direct && inside ? 0 : 2 * words));
        return;
    }
    const uint32_t *pairs_of_codes = NULL;
    if (coded) {
        mica_dsp_code_pairs(scratch, ch->table);
        pairs_of_codes = scratch;
        scratch = (uint32_t *)scratch + MICA_CODE_PAIRS;
        scratch_bytes -= table;
    }
    uint32_t *weight = scratch, *weight_end = weight + 4 + 8 * words;
    s.patches = (int8_t *)(weight_end + 12);
    uint32_t *stream = weight + fixed / 4;
    if (!s.direct) {  // what fills the last words of the patches
        for (uint32_t i = 1; i <= PATCHES; ++i) {
            ((mica_word_t *)(void *)s.patches)[i * words - 1] = 0;
        }
    }
    // As few tiles as fit, of about the same size.
    uint32_t most = (uint32_t)((scratch_bytes - fixed) / pair_bytes), pairs = (total + 1) / 2,
        tiles = (pairs + most - 1) / most;
    uint32_t tile_pairs = (pairs + tiles - 1) / tiles;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * out_c;
    for (uint32_t at = 0; at < total;) {
        uint32_t pixels = total - at < 2 * tile_pairs ? total - at : 2 * tile_pairs;
        uint32_t first = row_begin * w->out_w + at;
        unpack(&s, (int32_t)(first / w->out_w), (int32_t)(first % w->out_w), pixels, stream);
        run_pixels(&s, stream, pixels, y, weight, weight_end, pairs_of_codes);
        y += (size_t)pixels * out_c;
        at += pixels;
    }
}

#endif

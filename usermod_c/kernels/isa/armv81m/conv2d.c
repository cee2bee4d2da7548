// 2-D convolution with MVE: the patches of a tile of pixels become a stream of interleaved pairs (gemm.S), then all
// channels run over it, four at a time, whose weights are read as they are stored. All other cases (groups, claims
// without FAST, fewer than four channels, too little scratch) go to armv7em. Bytes of scratch, a patch being its
// elements filled up to sixteen: two patches for each pair of pixels, one and 16 where they cannot be copied in blocks,
// and four for weights as codes.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

typedef struct {
    const mica_conv2d_s8_t *p;
    int8_t *patch;          // one, with 16 bytes behind it
    uint32_t bytes;         // of a patch
    uint32_t row_bytes;     // of a row of it
    bool blocks;            // rows of patches inside the image are copied in blocks
    int32_t left, right;    // pixels [left, right) of a row of the output have all their columns inside the image
} source_t;

// The patch of any pixel; what lies outside the image is x_zero.
static void patch(const source_t *s, int32_t iy, int32_t ix) {
    const mica_conv2d_s8_t *p = s->p;
    const mica_window_t *w = &p->win;
    int8x16_t outside = vdupq_n_s8(p->x_zero);
    for (int8_t *to = s->patch, *end = to + s->bytes; to != end; to += 16) {
        vstrbq_s8(to, outside);
    }
    int32_t in_c = w->in_c, ky0, ky1, kx0, kx1;
    mica_taps(iy, w->in_h, w->kernel_h, w->dilation_h, &ky0, &ky1);
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    if (ky0 == ky1 || kx0 == kx1) {
        return;
    }
    bool whole = w->dilation_w == 1;
    uint32_t n = (uint32_t)(whole ? (kx1 - kx0) * in_c : in_c), times = whole ? 1 : (uint32_t)(kx1 - kx0);
    int8_t *to_row = s->patch + (ky0 * w->kernel_w + kx0) * in_c;
    const int8_t *row = p->x + ((iy + ky0 * w->dilation_h) * w->in_w + ix + kx0 * w->dilation_w) * in_c;
    const uint32_t down = (uint32_t)w->dilation_h * w->in_w * in_c;
    if (times == 1 && n <= 16) {
        const mve_pred16_t some = vctp8q(n);
        for (; ky0 < ky1; ++ky0, to_row += s->row_bytes, row += down) {
            vstrbq_p_s8(to_row, vldrbq_z_s8(row, some), some);
        }
        return;
    }
    for (; ky0 < ky1; ++ky0, to_row += s->row_bytes, row += down) {
        int8_t *to = to_row;
        const int8_t *x = row;
        for (uint32_t i = times; i; --i, to += in_c, x += (uint32_t)w->dilation_w * in_c) {
            mica_mve_copy(to, x, n);
        }
    }
}

// The patches of n pixels side by side, inside the image, to every other block; at: of the first of them in its tile.
static void in_blocks(const source_t *s, const int8_t *x, uint32_t n, uint32_t at, int8_t *to) {
    const mica_window_t *w = &s->p->win;
    const uint32_t whole = s->row_bytes / 16, rest = s->row_bytes % 16, rows = w->kernel_h;
    const uint32_t down = (uint32_t)w->dilation_h * w->in_w * w->in_c - 16 * whole,
        across = (uint32_t)w->stride_w * w->in_c;
    const uint32_t next = 2 * s->bytes - 16;
    const mve_pred16_t some = vctp8q(rest);
    for (; n; --n, ++at, x += across) {
        const int8_t *from = x;
        int8_t *block = to;
        if (whole) {
            for (uint32_t row = rows; row; --row, from += down) {
                MICA_MVE_BLOCKS(block, 32, from, 16, whole);
            }
        }
        if (rest) {  // of the only row
            vstrbq_s8(block, vldrbq_z_s8(x + 16 * whole, some));
        }
        to += at % 2 ? next : 16;
    }
}

// The same, by way of a copy where rows are no blocks.
static void by_patch(const source_t *s, const int8_t *x, uint32_t n, uint32_t at, int8_t *to) {
    const mica_window_t *w = &s->p->win;
    const uint32_t row_bytes = s->row_bytes, pitch = (uint32_t)w->dilation_h * w->in_w * w->in_c,
        blocks = s->bytes / 16;
    const mve_pred16_t some = vctp8q(row_bytes);
    for (; n; --n, ++at, x += w->stride_w * w->in_c) {
        int8_t *row = s->patch;
        const int8_t *from = x;
        if (row_bytes <= 16) {
            for (uint32_t left = w->kernel_h; left; --left, row += row_bytes, from += pitch) {
                vstrbq_s8(row, vldrbq_z_s8(from, some));  // the next row begins in what is too much
            }
        } else {
            for (uint32_t left = w->kernel_h; left; --left, row += row_bytes, from += pitch) {
                mica_mve_copy(row, from, row_bytes);
            }
        }
        int8_t *block = to;
        from = s->patch;
        MICA_MVE_BLOCKS(block, 32, from, 16, blocks);
        to += at % 2 ? 2 * s->bytes - 16 : 16;
    }
}

// The stream of `pixels` pixels from `first` on. The second of an odd pair is left as it was.
static void stream(const source_t *s, uint32_t first, uint32_t pixels, int8_t *to) {
    const mica_window_t *w = &s->p->win;
    int32_t oy = (int32_t)(first / w->out_w), ox = (int32_t)(first % w->out_w);
    for (uint32_t at = 0, n; at < pixels; at += n) {
        int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left;
        int8_t *block = to + at / 2 * 2 * s->bytes + at % 2 * 16;
        n = 1;
        if (ox >= s->left && ox < s->right && iy >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h) {
            const int8_t *x = s->p->x + (iy * w->in_w + ix) * w->in_c;
            n = (uint32_t)(s->right - ox) < pixels - at ? (uint32_t)(s->right - ox) : pixels - at;
            if (s->blocks) {
                in_blocks(s, x, n, at, block);
            } else {
                by_patch(s, x, n, at, block);
            }
        } else {
            const int8_t *from = s->patch;
            uint32_t blocks = s->bytes / 16;
            patch(s, iy, ix);
            MICA_MVE_BLOCKS(block, 32, from, 16, blocks);
        }
        ox += (int32_t)n;
        if (ox == w->out_w) {
            ox = 0;
            ++oy;
        }
    }
}

// A row of k codes as weights. Codes lie on words.
static void decode(int8_t *to, const int8_t *codes, uint32_t k, const int8_t *table) {
    for (uint32_t words = (k + 3) / 4; words; to += 16, codes += 8) {
        vstrbq_s8(to, mica_mve_decode(vldrhq_z_u32((const uint16_t *)(const void *)codes, vctp32q(words)), table));
        words -= words < 4 ? words : 4;
    }
}

static source_t source_of(const mica_conv2d_s8_t *p, uint32_t k) {
    const mica_window_t *w = &p->win;
    const bool dense = w->dilation_w == 1 || w->kernel_w == 1;
    source_t s = { .p = p, .bytes = (k + 15) & ~15u, .row_bytes = (uint32_t)w->kernel_w * w->in_c };
    s.blocks = dense && (s.row_bytes % 16 == 0 || w->kernel_h == 1);
    const int32_t reach = w->in_w - 1 - (w->kernel_w - 1) * w->dilation_w + w->pad_left;
    s.left = dense ? (w->pad_left + w->stride_w - 1) / w->stride_w : w->out_w;
    s.right = reach < 0 ? 0 : reach / w->stride_w + 1;
    s.right = s.right < w->out_w ? s.right : w->out_w;
    return s;
}

static bool takes(const mica_conv2d_s8_t *p) {
    return p->ch.fast && p->groups == 1 && p->win.out_c >= 4
        && (!MICA_CODED(p->ch.layout) || mica_aligned4(p->ch.weights));
}

void mica_conv2d_s8_armv81m(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c, row = mica_row_bytes(ch->layout, k),
        out_c = w->out_c;
    const uint32_t total = (row_end - row_begin) * w->out_w;
    const bool coded = MICA_CODED(ch->layout);
    source_t s = source_of(p, k);
    const bool inside = s.left == 0 && s.right == w->out_w && w->pad_top == 0
        && (w->out_h - 1) * w->stride_h + (w->kernel_h - 1) * w->dilation_h < w->in_h;
    const uint64_t fixed = (coded ? (uint64_t)4 * s.bytes : 0) + (s.blocks && inside ? 0 : s.bytes + 16),
        pair_bytes = (uint64_t)2 * s.bytes;
    if (!takes(p) || total == 0 || fixed + pair_bytes > scratch_bytes) {
        mica_conv2d_s8_armv7em(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    // As few tiles as fit, of about the same size.
    const uint32_t most = (uint32_t)((scratch_bytes - fixed) / pair_bytes), pairs = (total + 1) / 2,
        tiles = (pairs + most - 1) / most;
    const uint32_t tile_pairs = (pairs + tiles - 1) / tiles;
    int8_t *x = scratch, *rows = x + tile_pairs * pair_bytes;
    s.patch = coded ? rows + 4 * s.bytes : rows;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * out_c;
    mica_mve_gemm_t args = {
        .blocks = k / 16, .tail = k % 16, .step = 2 * out_c, .zero = ch->y_zero, .low = ch->act_min,
        .high = ch->act_max,
    };
    for (uint32_t at = 0; at < total; at += 2 * tile_pairs) {
        const uint32_t pixels = total - at < 2 * tile_pairs ? total - at : 2 * tile_pairs;
        stream(&s, row_begin * w->out_w + at, pixels, x);
        for (uint32_t o = 0;;) {
            for (uint32_t i = 0; i < 4; ++i) {
                const int8_t *weights = ch->weights + (size_t)(o + i) * row;
                args.w[i] = weights;
                if (coded) {
                    args.w[i] = rows + i * s.bytes;
                    decode(rows + i * s.bytes, weights, k, ch->table);
                }
            }
            args.bias = ch->bias + o;
            args.mult = ch->mult + o;
            args.shift = ch->shift + o;
            args.y = y + (size_t)at * out_c + o;
            args.x = x;
            args.x_end = x + pixels / 2 * pair_bytes;
            args.second = out_c;
            if (pixels > 1) {
                mica_mve_gemm(&args);
            }
            if (pixels % 2) {
                args.x = args.x_end;
                args.x_end += pair_bytes;
                args.second = 0;
                mica_mve_gemm(&args);
            }
            if (o + 4 == out_c) {
                break;
            }
            o = o + 8 <= out_c ? o + 4 : out_c - 4;  // the last four may overlap those before
        }
    }
}

#endif

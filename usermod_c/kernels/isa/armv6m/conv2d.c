// 2-D convolution on a Cortex-M0+: the patches of a tile of pixels become a stream (gemm.S), then all channels run over
// it. All other cases (groups, claims without FAST, weights in another order, too little scratch) go to the reference.
// Bytes of scratch: 8 for each element of a patch and group of four pixels, and a few patches.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

// A patch that does not lie on words, and the table of its elements, 16 bytes for each part more.
#define PATCH_BYTES(words) ((words) > 1 ? 32 * (words) : 36)

// A tile while its stream is made. A patch of more than MICA_GEMM_WORDS words is cut into parts; part n of all pixels
// comes before part n + 1 of any.
typedef struct {
    const mica_conv2d_s8_t *p;
    uint32_t *stream;
    uint32_t *patch;          // words of one patch, or of what lies outside the image
    uint32_t words;           // of a patch
    uint32_t part_words;      // of a part, but the last
    uint32_t from, to;        // words of the patches that the stream holds: all of them, or one part
    uint32_t groups;
    const uint32_t *pairs;    // of codes; null: weights are bytes
    int32_t *table;           // of elements, part by part (mica_armv6m_pick); null: patches are words
} tile_t;

static uint32_t part_length(const tile_t *t, uint32_t part) {
    uint32_t left = t->words - part * t->part_words;
    return left < t->part_words ? left : t->part_words;
}

// Unpacks `words` words at x for `pixels` pixels from `slot` on, as word `word` of each patch; patches in parts.
static void put_parts(const tile_t *t, uint32_t slot, uint32_t pixels, uint32_t word, uint32_t words, const int8_t *x,
    int32_t x_step) {
    if (t->to - t->from <= t->part_words) {  // one of them: what lies in it
        const uint32_t first = word < t->from ? t->from : word, end = word + words < t->to ? word + words : t->to;
        if (first < end) {
            uint32_t length = t->to - t->from, *to = t->stream + 8 * (slot / 4 * length + first - t->from) + slot % 4;
            mica_armv6m_unpack(x + 4 * (first - word), to, end - first, pixels, x_step, slot % 4, 32 * length - 16);
        }
        return;
    }
    while (words) {
        uint32_t part = word / t->part_words, inside = word - part * t->part_words, length = part_length(t, part);
        uint32_t n = words < length - inside ? words : length - inside;
        // Parts before this one are whole; in words of the stream a group is 8 for each word of four elements.
        uint32_t *to = t->stream + 8 * (part * t->part_words * t->groups + slot / 4 * length + inside) + slot % 4;
        mica_armv6m_unpack(x, to, n, pixels, x_step, slot % 4, 32 * length - 16);
        x += 4 * n;
        word += n;
        words -= n;
    }
}

// The same, of patches that are whole or in parts.
static void put(const tile_t *t, uint32_t slot, uint32_t pixels, uint32_t word, uint32_t words, const int8_t *x,
    int32_t x_step) {
    if (t->words == t->part_words && words) {
        uint32_t *to = t->stream + 8 * (slot / 4 * t->words + word) + slot % 4;
        mica_armv6m_unpack(x, to, words, pixels, x_step, slot % 4, 32 * t->words - 16);
        return;
    }
    put_parts(t, slot, pixels, word, words, x, x_step);
}

// One patch as bytes, wherever they lie.
static void copy_patch(const mica_conv2d_s8_t *p, int8_t *to, int32_t iy, int32_t ix) {
    const mica_window_t *w = &p->win;
    const int32_t in_c = w->in_c, row = (int32_t)w->in_w * in_c;
    int32_t kx0, kx1, ky0, ky1;
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    mica_taps(iy, w->in_h, w->kernel_h, w->dilation_h, &ky0, &ky1);
    // Taps side by side are copied as one.
    const bool dense = w->dilation_w == 1;
    const int32_t n = dense ? (kx1 - kx0) * in_c : in_c;
    const int32_t apart = dense ? 0 : (int32_t)((uint32_t)w->dilation_w * in_c) - n;
    const int32_t length = w->kernel_w * in_c, before = kx0 * in_c, down = (int32_t)((uint32_t)w->dilation_h * row);
    const int8_t *from = p->x + iy * row + (ix + kx0 * w->dilation_w) * in_c;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, from += down) {
        int8_t *const row_end = to + length;
        if (ky >= ky0 && ky < ky1 && kx0 < kx1) {
            for (int8_t *end = to + before; to != end;) {
                *to++ = p->x_zero;
            }
            const int8_t *x = from;
            for (int32_t left = dense ? 1 : kx1 - kx0; left; --left, x += apart) {
                for (int8_t *end = to + n; to != end;) {
                    *to++ = *x++;
                }
            }
        }
        while (to != row_end) {
            *to++ = p->x_zero;
        }
    }
}

// The tables of mica_armv6m_pick. Elements 0, 1, 2, 3 of a word go to 0, 2, 1, 3, of a part's last one to 0, 4, 1, 5.
static void put_table(const tile_t *t) {
    const mica_window_t *w = &t->p->win;
    int32_t *to = t->table;
    uint32_t i = 0, word = 0, last = part_length(t, 0) - 1;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky) {
        for (int32_t kx = 0; kx < w->kernel_w; ++kx) {
            int32_t at = (ky * w->dilation_h * w->in_w + kx * w->dilation_w) * w->in_c;
            for (const int32_t end = at + w->in_c; at != end; ++at) {
                if (word == last) {
                    const uint32_t place = i >> 1 | (i & 1) << 2;
                    for (uint32_t k = i == 0 ? 0 : 8; k < 8; ++k) {
                        to[k] = 0;
                    }
                    to[place] = at;
                    to[place + 2] = i >> 1 ? 1 << 16 : 1;
                } else {
                    to[i >> 1 | (i & 1) << 1] = at;
                }
                if (++i == 4) {
                    i = 0;
                    to += word == last ? 8 : 4;
                    last += word == last ? part_length(t, (word + 1) / t->part_words) : 0;
                    ++word;
                }
            }
        }
    }
}

// Patches of `pixels` neighbours that lie inside the image, the first at x.
static void pick(const tile_t *t, uint32_t slot, uint32_t pixels, const int8_t *x) {
    const int32_t step = t->p->win.stride_w * t->p->win.in_c;
    for (uint32_t word = t->from, length; word < t->to; word += length) {
        const uint32_t part = word / t->part_words;
        length = part_length(t, part);
        uint32_t *to = t->stream + 8 * ((word - t->from) * t->groups + slot / 4 * length) + slot % 4;
        mica_armv6m_pick(x, to, t->table + part * (4 * t->part_words + 4), length, pixels, step, slot % 4,
            32 * length - 16);
    }
}

static void put_bytes(const tile_t *t, uint32_t slot, int32_t iy, int32_t ix) {
    copy_patch(t->p, (int8_t *)t->patch, iy, ix);
    put(t, slot, 1, 0, t->words, (const int8_t *)t->patch, 0);
}

// Patches of `pixels` neighbours whose windows have the same taps inside the image, all rows on words; t->patch holds a
// row of x_zero.
static void put_words(const tile_t *t, uint32_t slot, uint32_t pixels, int32_t iy, int32_t ix, int32_t kx0,
    int32_t kx1) {
    const mica_window_t *w = &t->p->win;
    const int8_t *outside = (const int8_t *)t->patch;
    uint32_t tap = w->in_c / 4u, word = 0;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h, word += w->kernel_w * tap) {
        if (iy < 0 || iy >= w->in_h || kx0 == kx1) {
            put(t, slot, pixels, word, w->kernel_w * tap, outside, 0);
            continue;
        }
        const int8_t *x = t->p->x + (iy * w->in_w + ix + kx0) * w->in_c;
        put(t, slot, pixels, word, (uint32_t)kx0 * tap, outside, 0);
        put(t, slot, pixels, word + (uint32_t)kx0 * tap, (uint32_t)(kx1 - kx0) * tap, x, w->stride_w * w->in_c);
        put(t, slot, pixels, word + (uint32_t)kx1 * tap, (uint32_t)(w->kernel_w - kx1) * tap, outside, 0);
    }
}

// `pixels` neighbours of a row, the first at (oy, ox).
static void put_row(const tile_t *t, uint32_t slot, uint32_t pixels, int32_t oy, int32_t ox, bool aligned) {
    const mica_window_t *w = &t->p->win;
    int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left;
    for (uint32_t n; pixels; slot += n, pixels -= n, ix += (int32_t)n * w->stride_w) {
        n = 1;
        int32_t kx0, kx1;
        mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
        if (kx1 - kx0 == w->kernel_w) {  // and those behind it that lie inside as well
            n = pixels;
            int32_t room = w->in_w - 1 - (w->kernel_w - 1) * w->dilation_w - ix;
            if ((int32_t)(pixels - 1) * w->stride_w > room) {
                n = (uint32_t)room / w->stride_w + 1;
            }
        }
        const bool inside = kx1 - kx0 == w->kernel_w && iy >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h;
        if (aligned) {
            put_words(t, slot, n, iy, ix, kx0, kx1);
        } else if (inside) {
            pick(t, slot, n, t->p->x + (iy * w->in_w + ix) * w->in_c);
        } else {
            n = 1;
            put_bytes(t, slot, iy, ix);
        }
    }
}

static void run_tile(const tile_t *t, uint32_t pixels, int8_t *y, int32_t *sums) {
    const mica_channels_t *ch = &t->p->ch;
    uint32_t out_c = t->p->win.out_c;
    uint32_t overlap = 4 * t->groups - pixels;  // pixels of the second group that the first one has done
    mica_gemm_t args = {
        .x = t->stream, .adjust = -(int32_t)(overlap * out_c), .weights = ch->weights, .words = t->words,
        .row = mica_row_bytes(ch->layout, 4 * t->words), .pairs = t->pairs, .bias = ch->bias, .mult = ch->mult,
        .shift = ch->shift, .y = y, .y_step = out_c, .channels = out_c, .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min), .low = ch->act_min, .sums = sums,
    };
    const uint32_t length = t->to - t->from;
    if (length <= t->part_words) {
        args.end = args.x + 8 * length * t->groups;
        args.end1 = overlap ? args.x + 8 * length : args.end;
        args.step = 32 * length * (t->groups - 1);
        if (length != t->words) {  // one part of all channels, each with sums of its own
            args.words = length;
            args.weights += t->pairs != NULL ? 2 * t->from : 4 * t->from;
            args.flags = (t->from ? 1 : 0) | (t->to != t->words ? 2 : 0);
            args.end1 = args.x + 8 * length;  // sums are gone on from group by group
            args.step = 32 * length;
        }
        // For fewer groups, what a channel's short products take to begin is more than they save.
        if (t->groups > 2 && t->words <= MICA_GEMM_WORDS && !(args.flags & 2)) {
            for (args.drop = 15; 1u << (args.drop - 15) < t->words; ++args.drop) {
            }
        }
        mica_armv6m_gemm(&args);
        return;
    }
    for (uint32_t o = 0; o < out_c; ++o) {
        args.x = t->stream;
        args.bias = ch->bias + o;
        args.mult = ch->mult + o;
        args.shift = ch->shift + o;
        args.y = y + o;
        args.weights = ch->weights + args.row * o;
        args.flags = 2;
        for (uint32_t word = 0; word < t->words; word += t->part_words) {
            args.words = t->words - word < t->part_words ? t->words - word : t->part_words;
            if (word + args.words == t->words) {
                args.flags = 1;
            }
            args.channels = 1;
            args.step = 32 * args.words;
            args.end1 = args.x + 8 * args.words;
            args.end = args.x + 8 * args.words * t->groups;
            mica_armv6m_gemm(&args);
            args.x = args.end;
            args.weights += t->pairs != NULL ? 2 * args.words : 4 * args.words;  // codes: whole words
            args.flags = 3;
        }
    }
}

// `pixels` neighbours, one by one: left over by groups of four. Scratch: 12 bytes for a patch's word, of codes 20.
static void run_single(const mica_conv2d_s8_t *p, uint32_t words, uint32_t pixels, uint32_t at, int8_t *y,
    uint32_t *scratch, const uint32_t *pairs) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c;
    uint32_t row = mica_row_bytes(ch->layout, k), filled = pairs != NULL ? row / 2 : words;  // against a row of weights
    int8_t *patch = (int8_t *)(scratch + 2 * filled);
    mica_dense_t args = {
        .x = scratch,
        .x_end = scratch + 2 * filled,
        .weights = ch->weights,
        .weights_end = ch->weights + row * w->out_c,
        .pairs = pairs,
        .row = row,
        .bias = ch->bias,
        .mult = ch->mult,
        .shift = ch->shift,
        .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min),
        .low = ch->act_min,
    };
    for (; pixels; --pixels, ++at, y += w->out_c) {
        int32_t oy = (int32_t)(at / w->out_w), ox = (int32_t)(at % w->out_w);
        copy_patch(p, patch, oy * w->stride_h - w->pad_top, ox * w->stride_w - w->pad_left);
        args.y = y;
        if (pairs != NULL) {
            mica_armv6m_even_pairs(scratch, patch, k);
            mica_armv6m_dense_codes(&args, w->out_c);
        } else {
            mica_armv6m_pairs(scratch, patch, k);
            mica_armv6m_dense_rows(&args);
        }
    }
}

// The stream of a tile of `pixels` pixels from (*oy, *ox) on, which are moved behind it.
static void fill(const tile_t *t, uint32_t pixels, int32_t *oy, int32_t *ox, bool aligned) {
    const int32_t out_w = t->p->win.out_w;
    // Groups of four; where they do not come out even, the second overlaps the first.
    uint32_t overlap = 4 * t->groups - pixels, slot = 0;
    for (uint32_t at = 0; at < pixels;) {
        uint32_t n = (uint32_t)(out_w - *ox);
        uint32_t stop = overlap && at < 4 ? 4 : pixels;
        n = n < stop - at ? n : stop - at;
        put_row(t, slot, n, *oy, *ox, aligned);
        at += n;
        slot += n;
        *ox += (int32_t)n;
        if (*ox == out_w) {
            *ox = 0;
            ++*oy;
        }
        if (overlap && at == 4 && slot == 4) {
            at -= overlap;
            for (uint32_t back = overlap; back; --back) {
                if (*ox == 0) {
                    *ox = out_w;
                    --*oy;
                }
                --*ox;
            }
            if (t->groups == 1) {
                break;
            }
        }
    }
}

// Words of the parts in which patches are done where scratch holds few of them whole: the stream of a part of them at a
// time, and sums of all channels, 16 bytes a group each. 0: whole patches take less. whole: bytes of a group of them,
// room: of all. Cycles: the weights are unpacked once for a tile, a channel begun for each part; sums are read and
// written. takes: what of the chosen way is not the products themselves, null where nobody asks.
static uint32_t narrow_words(const mica_conv2d_s8_t *p, uint32_t words, uint32_t groups, uint32_t whole, uint32_t room,
    uint64_t *takes) {
    const uint32_t out_c = p->win.out_c, parts = (words + MICA_GEMM_WORDS - 1) / MICA_GEMM_WORDS;
    const bool sure = words <= 16 || whole * 8 <= room || (uint64_t)whole * groups <= room;
    uint64_t least;
    if (sure && takes == NULL) {
        return 0;
    }
    if (whole > room) {
        least = (uint64_t)groups * out_c * (42 * words);
    } else {
        const uint32_t tiles = (groups + room / whole - 1) / (room / whole);
        least = (uint64_t)tiles * out_c * (18 * words + 150 * parts)
            + (parts > 1 ? (uint64_t)groups * out_c * parts * 30 : 0);
    }
    uint32_t best = 0;
    for (uint32_t n = parts < 2 ? 2 : parts; !sure && n <= 8 && n <= words; ++n) {
        const uint32_t part = ((words + n - 1) / n + 1) & ~1u, bytes = 32 * part + 16 * out_c, most = room / bytes;
        if (most && part < words) {
            const uint64_t cycles = (uint64_t)((groups + most - 1) / most) * out_c * (18 * words + 150 * n)
                + (uint64_t)groups * n * (30 * out_c + 800);
            if (cycles < least) {
                least = cycles;
                best = part;
            }
        }
    }
    if (takes != NULL) {
        *takes = least;
    }
    return best;
}

#ifndef MICA_WITHOUT_PAIRED
// What this file's way takes in all, in eights of cycles, to within a few percent of images that are not all edge.
static uint32_t direct_cost(const mica_window_t *w, uint32_t rows, uint32_t words, uint64_t takes) {
    const uint32_t total = rows * w->out_w, groups = (total + 1) / 4, single = total % 4 < 3 ? total % 4 : 0;
    takes /= 8;
    return (takes < UINT32_MAX / 2 ? (uint32_t)takes : UINT32_MAX / 2)
        + groups * (w->out_c * (5 * words + 17) + 9 * words) + single * (w->out_c * (9 * words / 4 + 10) + 9 * words)
        + rows * w->kernel_h * 170 + 50;
}
#endif

// Bytes as they lie, word by word: where that is enough no patch is copied first.
static bool reads_words(const mica_conv2d_s8_t *p) {
    return p->win.in_c % 4 == 0 && mica_aligned4(p->x) && (p->win.dilation_w == 1 || p->win.kernel_w == 1);
}

static bool takes(const mica_conv2d_s8_t *p) {
    return p->ch.fast && p->groups == 1 && p->ch.layout != MICA_LAYOUT_PLAIN && mica_aligned4(p->ch.weights);
}

#ifndef MICA_WITHOUT_PAIRED
static bool paired_take(const mica_window_t *w) {
    return w->kernel_w == 3 && w->kernel_h >= 2 && w->stride_w == 1;
}
#endif

// All tiles; `narrow`: words of a part, 0 where all of a patch is one.
static void run_tiles(tile_t *t, uint32_t row_begin, uint32_t total, uint32_t tiles, uint32_t patch_bytes,
    uint32_t narrow, bool aligned) {
    const mica_conv2d_s8_t *p = t->p;
    const mica_window_t *w = &p->win;
    const uint32_t words = t->words;
    for (uint32_t i = 0; i < patch_bytes; ++i) {  // what lies outside, or the end of a patch, which no copy touches
        ((int8_t *)t->patch)[i] = aligned ? p->x_zero : 0;
    }
    if (!aligned) {
        t->table = (int32_t *)t->patch + words;
        put_table(t);
    }
    int32_t oy = (int32_t)row_begin, ox = 0;
    int8_t *y = p->y + (size_t)row_begin * w->out_w * w->out_c;
    for (uint32_t tile = 0, left = total; tile < tiles; ++tile) {
        t->groups = ((left + 3) / 4 + tiles - tile - 1) / (tiles - tile);
        // A last tile of fewer than four pixels would have nothing to overlap.
        uint32_t pixels = 4 * t->groups < left ? 4 * t->groups : left;
        if (pixels < 4) {
            uint32_t back = 4 - pixels;
            y -= (size_t)back * w->out_c;
            for (; back; --back, ++pixels, ++left) {
                if (ox == 0) {
                    ox = w->out_w;
                    --oy;
                }
                --ox;
            }
        }
        int32_t *sums = (int32_t *)(t->stream + 8 * words * t->groups);
        if (narrow) {
            const int32_t oy0 = oy, ox0 = ox;
            sums = (int32_t *)(t->stream + 8 * t->part_words * t->groups);
            for (t->from = 0; t->from < words; t->from = t->to) {
                t->to = words - t->from < t->part_words ? words : t->from + t->part_words;
                oy = oy0;
                ox = ox0;
                fill(t, pixels, &oy, &ox, aligned);
                run_tile(t, pixels, y, sums);
            }
        } else {
            fill(t, pixels, &oy, &ox, aligned);
            run_tile(t, pixels, y, sums);
        }
        y += (size_t)pixels * w->out_c;
        left -= pixels;
    }
}

void mica_conv2d_s8_armv6m(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c;
    uint32_t words = (k + 3) / 4, parts = (words + MICA_GEMM_WORDS - 1) / MICA_GEMM_WORDS;
    uint32_t total = (row_end - row_begin) * w->out_w;
    uint32_t group_bytes = 32 * words + (parts > 1 ? 16 : 0);
    const bool codes = MICA_CODED(p->ch.layout);
    uint32_t table = codes ? 4 * MICA_CODE_PAIRS : 0;  // bytes
    uint32_t room = scratch_bytes > table ? (scratch_bytes - table) / 4 * 4 : 0;
    bool aligned = reads_words(p);
    bool whole = aligned && mica_window_is_inside(w);
    uint32_t patch_bytes = whole ? 0 : aligned ? 4 * words : PATCH_BYTES(words);
    if (!takes(p) || total == 0 || room < 12 * words + (codes ? 8 : 0)) {
        mica_conv2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t *pairs = NULL;
    if (codes) {
        mica_armv6m_code_pairs(scratch, p->ch.table);
        pairs = scratch;
        scratch = (uint32_t *)scratch + MICA_CODE_PAIRS;
    }
    // One or two pixels beyond groups of four take less by themselves than a group; all do without room for one.
    uint64_t takes = 0;
#ifndef MICA_WITHOUT_PAIRED
    const bool paired = total >= 4 && paired_take(w);
#else
    const bool paired = false;
#endif
    const uint32_t narrow = total >= 4 && (paired || room > patch_bytes)
        ? narrow_words(p, words, total / 4, group_bytes, room > patch_bytes ? room - patch_bytes : 0,
        paired ? &takes : NULL) : 0;
#ifndef MICA_WITHOUT_PAIRED
    if (paired && mica_conv2d_paired_armv6m(p, row_begin, row_end, scratch, room,
        direct_cost(w, row_end - row_begin, words, takes), pairs)) {
        return;
    }
#endif
    if (narrow) {
        group_bytes = 32 * narrow + 16 * w->out_c;
    }
    bool grouped = total >= 4 && room >= patch_bytes + group_bytes;
    uint32_t single = !grouped ? total : total % 4 < 3 ? total % 4 : 0;
    total -= single;
    if (single) {
        uint32_t at = row_begin * w->out_w + total;
        run_single(p, words, single, at, p->y + (size_t)at * w->out_c, scratch, pairs);
    }
    if (total == 0) {
        return;
    }
    // As few tiles as fit, of about the same size.
    uint32_t most = (room - patch_bytes) / group_bytes;
    uint32_t groups = (total + 3) / 4, tiles = (groups + most - 1) / most;
    tile_t t = {
        .p = p,
        .patch = (uint32_t *)((uint8_t *)scratch + room) - patch_bytes / 4,
        .stream = scratch,
        .words = words,
        .part_words = narrow ? narrow : (words + parts - 1) / parts,
        .to = words,
        .pairs = pairs,
    };
    if (codes && parts > 1 && !narrow) {
        t.part_words += t.part_words % 2;
    }
    run_tiles(&t, row_begin, total, tiles, patch_bytes, narrow, aligned);
}

#endif

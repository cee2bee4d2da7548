// 2-D convolution on a Cortex-M0+: the patches of a tile of pixels become a stream (conv2d_stream.c), then all channels
// run over it (gemm.S). All other cases (groups, claims without FAST, weights in another order, too little scratch) go
// to the reference. Bytes of scratch: 8 for each element of a patch and group of four pixels, and a few patches.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "requant.h"
#include "shape.h"

// A patch that does not lie on words, and the table of its elements, 16 bytes for each part more.
#define PATCH_BYTES(words) ((words) > 1 ? 32 * (words) : 36)

static void run_tile(const mica_tile_t *t, uint32_t pixels, int8_t *y, int32_t *sums) {
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
        mica_armv6m_patch(p, patch, oy * w->stride_h - w->pad_top, ox * w->stride_w - w->pad_left);
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
static void run_tiles(mica_tile_t *t, uint32_t row_begin, uint32_t total, uint32_t tiles, uint32_t patch_bytes,
    uint32_t narrow, bool aligned) {
    const mica_conv2d_s8_t *p = t->p;
    const mica_window_t *w = &p->win;
    const uint32_t words = t->words;
    for (uint32_t i = 0; i < patch_bytes; ++i) {  // what lies outside, or the end of a patch, which no copy touches
        ((int8_t *)t->patch)[i] = aligned ? p->x_zero : 0;
    }
    if (!aligned) {
        t->table = (int32_t *)t->patch + words;
        mica_armv6m_tile_table(t);
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
                mica_armv6m_tile(t, pixels, &oy, &ox, aligned);
                run_tile(t, pixels, y, sums);
            }
        } else {
            mica_armv6m_tile(t, pixels, &oy, &ox, aligned);
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
    mica_tile_t t = {
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

// 3x3 convolution of stride 1 on a Cortex-M with the DSP instructions by Winograd's F(2x2,3x3), in integers and
// exactly: 16 products where four outputs of a channel take 36. Y = A'[(2G g (2G)') . (B' d B)]A is four times the sum;
// its own sums run modulo 2^32, and FAST says that a sum is below 2^29. Two more in the shift make up for the four.
//
// Tiles of 2x2 outputs go in pairs. Of a pair of tiles each pair of input channels is 16 positions of two words
// (mica_dsp_winograd_input). The weights of four channels are a stream in the order of the positions
// (mica_dsp_winograd): column by column, in each the rows 3, 1, 2, 0, whose sums go on from one another. Bytes of
// scratch: 64 for each input channel and pair of tiles, 144 and 600 beside them.
#include "kernels.h"
#if !defined(MICA_WITHOUT_CONV2D_S8) && !defined(MICA_WITHOUT_WINOGRAD)

#include "shape.h"

#define STEPS MICA_DSP_WINOGRAD_STEPS

typedef struct {
    int32_t bias, mult, round, shift;
} constants_t;

static const uint8_t rows_in_order[4] = { 3, 1, 2, 0 };

// The codes of the stream, which stand between the weights; returns where the constants begin.
static uint32_t *codes(uint32_t *to, uint32_t steps, uint32_t stretches) {
    uint32_t first = (steps - 1) % STEPS + 1, enter = mica_dsp_winograd_code[0] - first * MICA_DSP_WINOGRAD_STEP_CODE;
    uint32_t more = mica_dsp_winograd_code[0] - STEPS * MICA_DSP_WINOGRAD_STEP_CODE;
    *to++ = enter;
    for (uint32_t i = 0; i < 16; ++i) {
        to += 4 * first;
        for (uint32_t n = 1; n < stretches; ++n) {
            *to = more;
            to += 1 + 4 * STEPS;
        }
        uint32_t here = 4u * rows_in_order[i % 4] + i / 4, next = 4u * rows_in_order[(i + 1) % 4] + (i + 1) / 4;
        to[0] = mica_dsp_winograd_code[1];
        to[1] = 8 * (next - here) - 128 * steps;
        to[2] = i == 15 ? mica_dsp_winograd_code[3] : i % 4 == 3 ? mica_dsp_winograd_code[2] : enter;
        to[3] = enter;
        to += 4;
    }
    return to;
}

// A tile whose first pixel is (iy, ix), as bytes: what lies outside the image is x_zero.
static void tile(const mica_conv2d_s8_t *p, int32_t iy, int32_t ix, int8_t *to) {
    const mica_window_t *w = &p->win;
    uint32_t words = w->in_c / 4u, outside = 0x01010101u * (uint8_t)p->x_zero;
    mica_word_t *at = (mica_word_t *)(void *)to;
    for (int32_t y = iy; y < iy + 4; ++y) {
        for (int32_t x = ix; x < ix + 4; ++x) {
            mica_word_t *end = at + words;
            if (y < 0 || x < 0 || y >= w->in_h || x >= w->in_w) {
                while (at != end) {
                    *at++ = outside;
                }
            } else {
                const int8_t *from = p->x + (y * w->in_w + x) * w->in_c;
                for (; at != end; from += 4) {
                    __builtin_memcpy(at++, from, 4);
                }
            }
        }
    }
}

// Whether this way takes fewer instructions than conv2d.c's, as it tiles: a sum of what each of their loops takes. Both
// sums are within a few percent of what is counted (tests/bench/test_winograd.py).
static bool pays(const mica_window_t *w, uint32_t rows, uint32_t pairs, uint32_t passes, size_t scratch_bytes) {
    const uint32_t in_c = w->in_c, k = 9 * in_c, fours = (w->out_c + 3u) / 4, direct_fixed = 64 + 10 * k,
        direct_pair = 4 * k;
    const uint32_t direct_pairs = (rows * w->out_w + 1) / 2;
    const uint64_t here = 1000 + (uint64_t)pairs * (fours * (88 * in_c + 700) + 96 * in_c + 500)
        + (uint64_t)passes * fours * (170 * in_c + 400);
    if (direct_fixed + 2 * direct_pair > scratch_bytes) {
        const uint32_t four = 6 * k <= scratch_bytes ? 68 * in_c : 90 * in_c;
        return here < (uint64_t)direct_pairs * (fours * (four + 150) + 20 * in_c + 200);
    }
    const uint32_t most = (uint32_t)(scratch_bytes - direct_fixed) / direct_pair,
        tiles = (direct_pairs + most - 1) / most;
    const uint64_t direct = (uint64_t)direct_pairs * (fours * (49 * in_c + 55) + 15 * in_c + 100)
        + (uint64_t)tiles * fours * (36 * in_c + 150);
    return here < direct;
}

static bool takes(const mica_conv2d_s8_t *p) {
    const mica_window_t *w = &p->win;
    return mica_window_is_3x3(w, 1) && p->groups == 1 && w->in_c >= 16 && w->in_c % 4 == 0 && w->out_c >= 4
        && w->out_w >= 2 && p->ch.fast && p->ch.layout == MICA_LAYOUT_ROWS;
}

bool mica_conv2d_winograd_armv7em(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end, void *scratch,
    size_t scratch_bytes) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t in_c = w->in_c, out_c = w->out_c, rows = row_end - row_begin, words = in_c / 4;
    if (!takes(p) || rows < 2) {
        return false;
    }
    // A window sees one image; its sizes fit an int32.
    const uint32_t stretches = (in_c / 2 + STEPS - 1) / STEPS, position = 8 * in_c + 4 * stretches + 12,
        pair_bytes = 64 * in_c;
    const uint32_t stream = 4 + 16 * position + 4 * sizeof(constants_t), fixed = stream + 16 * in_c;
    if (fixed + pair_bytes > scratch_bytes) {
        return false;
    }
    const uint32_t most = (uint32_t)((scratch_bytes - fixed) / pair_bytes);
    const uint32_t across = (w->out_w + 1u) / 2, total = across * ((rows + 1) / 2);
    uint32_t pairs = (total + 1) / 2, passes = (pairs + most - 1) / most;
    if (!pays(w, rows, pairs, passes, scratch_bytes)) {
        return false;
    }
    uint32_t *weights = scratch;
    constants_t *constants = (constants_t *)(void *)codes(weights, in_c / 2, stretches);
    int8_t *patch = (int8_t *)(constants + 4);
    uint32_t *tiles = (uint32_t *)(void *)(patch + 16 * in_c);
    int8_t *const y = p->y + (size_t)row_begin * w->out_w * out_c;
    mica_dsp_winograd_t args = { .column = out_c, .row = w->out_w * out_c };
    for (uint32_t at = 0; passes; --passes) {  // as few as fit, of about the same size
        const uint32_t n = (pairs + passes - 1) / passes;
        uint32_t *to = tiles;
        for (uint32_t i = 0; i < 2 * n; ++i) {
            // Where sizes are odd, the last tile covers outputs again; an odd number of tiles has it twice.
            const uint32_t t = at + i < total ? at + i : total - 1;
            int32_t oy = (int32_t)(t / across * 2), ox = (int32_t)(t % across * 2);
            oy = oy + 2 <= (int32_t)rows ? oy : oy - 1;
            ox = ox + 2 <= w->out_w ? ox : ox - 1;
            const int32_t iy = oy + (int32_t)row_begin - w->pad_top, ix = ox - w->pad_left;
            if (iy >= 0 && ix >= 0 && iy + 4 <= w->in_h && ix + 4 <= w->in_w) {
                mica_dsp_winograd_input(p->x + (iy * w->in_w + ix) * (int32_t)in_c, w->in_w * in_c, in_c, words,
                    to + i % 2);
            } else {
                tile(p, iy, ix, patch);
                mica_dsp_winograd_input(patch, 4 * in_c, in_c, words, to + i % 2);
            }
            to += i % 2 * (pair_bytes / 4);
        }
        for (uint32_t o = 0;;) {
            for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t shift = (uint32_t)ch->shift[o + i];
                constants[i] = (constants_t) {
                    .bias = ch->bias[o + i] * 4, .mult = ch->mult[o + i],
                    .round = (1 << shift) + ch->y_zero * (2 << shift), .shift = (int32_t)shift + 1,
                };
                const int8_t *from = ch->weights + (size_t)(o + i) * 9 * in_c;
                uint32_t *into = weights + 1 + 3 * position / 4 + i, left = words, part = (words - 1) % (STEPS / 2) + 1;
                for (; left; left -= part, part = STEPS / 2) {
                    mica_dsp_winograd_weights(from, in_c, part, into, 4 * position);
                    from += 4 * part;
                    into += 8 * part + 1;
                }
            }
            for (uint32_t i = 0; i < n; ++i) {
                for (uint32_t j = 0; j < 2; ++j) {
                    const uint32_t t = at + 2 * i + j < total ? at + 2 * i + j : total - 1;
                    uint32_t oy = t / across * 2, ox = t % across * 2;
                    oy = oy + 2 <= rows ? oy : oy - 1;
                    ox = ox + 2 <= w->out_w ? ox : ox - 1u;
                    args.y[j] = y + (size_t)(oy * w->out_w + ox) * out_c + o;
                }
                mica_dsp_winograd(tiles + i * (pair_bytes / 4) + 2 * 4 * rows_in_order[0], weights, &args);
            }
            if (o + 4 == out_c) {
                break;
            }
            o = o + 8 <= out_c ? o + 4 : out_c - 4;  // the last four may overlap those before
        }
        at += 2 * n;
        pairs -= n;
    }
    mica_dsp_clamp(ch, y, rows * args.row);
    return true;
}

#endif

// 3x3 convolution of stride 1 on RV32IM by Winograd's F(2x2,3x3), in integers and exactly: 16 products where four
// outputs of a channel take 36. Y = A'[(2G g (2G)') . (B' d B)]A is four times the sum; its own sums run modulo 2^32,
// and FAST says that a sum is below 2^29. Two more in the shift make up for the four.
//
// Tiles of 2x2 outputs go in groups of four, output channels as well; of both each input channel is 16 positions of
// four int16. Positions are in the order in which their sums go on from one another: column by column, in each the rows
// 3, 1, 2, 0, the third row of tiles negated. Bytes of scratch: 128 for each input channel and group of tiles, 144 and
// 1,088 beside them.
#include "kernels.h"
#if !defined(MICA_WITHOUT_CONV2D_S8) && !defined(MICA_WITHOUT_WINOGRAD)

#include "shape.h"

#define PITCH 64  // int16 from an input channel to the next
#define AT(row, column) (4 * (4 * (column) + ((row) == 3 ? 0 : (row) == 0 ? 3 : (row))))

// B' d B of a tile of 4x4 pixels, each in_c bytes from the one before, rows `pitch` bytes apart.
static void input(const int8_t *x, uint32_t pitch, uint32_t in_c, int16_t *to) {
    for (const int8_t *end = x + in_c; x != end; ++x, to += PITCH) {
        const int8_t *row = x;
        int32_t d[4][4];
        for (uint32_t i = 0; i < 4; ++i, row += pitch) {
            int32_t a = row[0], b = row[in_c], c = row[2 * in_c], e = row[3 * in_c];
            d[i][0] = a - c;
            d[i][1] = b + c;
            d[i][2] = c - b;
            d[i][3] = b - e;
        }
        for (uint32_t j = 0; j < 4; ++j) {
            to[AT(0, j)] = (int16_t)(d[0][j] - d[2][j]);
            to[AT(1, j)] = (int16_t)(d[1][j] + d[2][j]);
            to[AT(2, j)] = (int16_t)(d[2][j] - d[1][j]);
            to[AT(3, j)] = (int16_t)(d[3][j] - d[1][j]);
        }
    }
}

// A row of three as a row of four.
static inline void expand(int16_t *to, int32_t a, int32_t b, int32_t c) {
    const int32_t sum = a + c;
    to[AT(3, 0)] = (int16_t)(2 * a);
    to[AT(3, 1)] = (int16_t)(sum + b);
    to[AT(3, 2)] = (int16_t)(sum - b);
    to[AT(3, 3)] = (int16_t)(2 * c);
}

// 2G g (2G)' of one output channel.
static void weights(const int8_t *w, uint32_t in_c, int16_t *to) {
    for (const int8_t *end = w + in_c; w != end; ++w, to += PITCH) {
        const int8_t *second = w + 3 * in_c, *third = second + 3 * in_c;
        const int32_t a = w[0], b = w[in_c], c = w[2 * in_c], d = second[0], e = second[in_c], f = second[2 * in_c];
        const int32_t g = third[0], h = third[in_c], i = third[2 * in_c], ag = a + g, bh = b + h, ci = c + i;
        expand(to, 2 * g, 2 * h, 2 * i);
        expand(to + AT(1, 0), ag + d, bh + e, ci + f);
        expand(to + AT(2, 0), ag - d, bh - e, ci - f);
        expand(to + AT(0, 0), 2 * a, 2 * b, 2 * c);
    }
}

// A tile whose first pixel is (iy, ix), as bytes: what lies outside the image is x_zero.
static void tile(const mica_conv2d_s8_t *p, int32_t iy, int32_t ix, int8_t *to) {
    const mica_window_t *w = &p->win;
    for (int32_t y = iy; y < iy + 4; ++y) {
        for (int32_t x = ix; x < ix + 4; ++x, to += w->in_c) {
            if (y < 0 || x < 0 || y >= w->in_h || x >= w->in_w) {
                mica_fill(to, p->x_zero, w->in_c);
            } else {
                mica_copy(to, p->x + (y * w->in_w + x) * w->in_c, w->in_c);
            }
        }
    }
}

// Sums are four times as large: round + (zero + 128) * 2^(shift+1) and they have to fit an int32.
static bool takes(const mica_channels_t *ch, uint32_t n) {
    for (const int8_t *s = ch->shift, *end = s + n; s != end; ++s) {
        if (*s < 1 || *s > 20) {
            return false;
        }
    }
    return ch->fast;
}

// Whether this way takes fewer instructions than conv2d.c's, as it tiles: a sum of what each of their loops takes. Both
// sums are within a few percent of what is counted (tests/bench/test_winograd.py).
static bool pays(const mica_window_t *w, uint32_t rows, uint32_t groups, uint32_t passes, size_t scratch_bytes) {
    const uint32_t in_c = w->in_c, fours = (w->out_c + 3u) / 4, direct_fixed = 64 + 72 * in_c, direct_group = 36 * in_c;
    const uint32_t direct_groups = (rows * w->out_w + 3) / 4;
    const uint64_t here = 500 + (uint64_t)groups * (fours * (652 * in_c + 1900) + 660 * in_c + 600)
        + (uint64_t)passes * fours * (344 * in_c + 400);
    if (direct_fixed + direct_group > scratch_bytes) {
        return here < (uint64_t)direct_groups * fours * (480 * in_c);
    }
    const uint32_t most = (uint32_t)(scratch_bytes - direct_fixed) / direct_group,
        tiles = (direct_groups + most - 1) / most;
    const uint64_t direct = (uint64_t)direct_groups * (fours * (312 * in_c + 190) + 45 * in_c + 300)
        + (uint64_t)tiles * fours * (104 * in_c + 100);
    return here < direct;
}

static bool sizes_fit(const mica_conv2d_s8_t *p) {
    return p->groups == 1 && p->win.in_c >= 16 && p->win.in_c % 4 == 0 && p->win.out_c >= 4 && p->win.out_w >= 2
        && p->ch.layout == MICA_LAYOUT_ROWS;
}

bool mica_conv2d_winograd_rv32imc(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end, void *scratch,
    size_t scratch_bytes) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const uint32_t in_c = w->in_c, out_c = w->out_c, rows = row_end - row_begin, group_bytes = 2 * PITCH * in_c;
    if (!mica_window_is_3x3(w, 1) || !sizes_fit(p) || rows < 2) {
        return false;
    }
    const uint32_t fixed = group_bytes + 1024 + 4 * sizeof(mica_rv32_winograd_constants_t) + 16 * in_c;
    if (fixed + group_bytes > scratch_bytes) {
        return false;
    }
    const uint32_t most = (uint32_t)((scratch_bytes - fixed) / group_bytes);
    const uint32_t across = (w->out_w + 1u) / 2, total = across * ((rows + 1) / 2);
    uint32_t groups = (total + 3) / 4, passes = (groups + most - 1) / most;
    if (!pays(w, rows, groups, passes, scratch_bytes) || !takes(ch, out_c)) {
        return false;
    }
    int32_t *sums = scratch;
    mica_rv32_winograd_constants_t *constants = (mica_rv32_winograd_constants_t *)(void *)(sums + 256);
    int16_t *w4 = (int16_t *)(void *)(constants + 4), *tiles = w4 + PITCH * in_c;
    int8_t *patch = (int8_t *)scratch + scratch_bytes / 4 * 4 - 16 * in_c,
        *const y = p->y + (size_t)row_begin * w->out_w * out_c;
    mica_rv32_winograd_t args = {
        .w = w4, .sums = sums, .bytes = group_bytes, .constants = constants, .column = out_c, .row = w->out_w * out_c,
    };
    for (uint32_t at = 0; passes; --passes) {  // as few as fit, of about the same size
        const uint32_t n = (groups + passes - 1) / passes;
        for (uint32_t i = 0; i < 4 * n; ++i) {
            // Where sizes are odd, the last tile covers outputs again; the last group may have it more than once.
            const uint32_t t = at + i < total ? at + i : total - 1;
            int32_t oy = (int32_t)(t / across * 2), ox = (int32_t)(t % across * 2);
            oy = oy + 2 <= (int32_t)rows ? oy : oy - 1;
            ox = ox + 2 <= w->out_w ? ox : ox - 1;
            const int32_t iy = oy + (int32_t)row_begin - w->pad_top, ix = ox - w->pad_left;
            int16_t *to = tiles + i / 4 * PITCH * in_c + i % 4;
            if (iy >= 0 && ix >= 0 && iy + 4 <= w->in_h && ix + 4 <= w->in_w) {
                input(p->x + (iy * w->in_w + ix) * (int32_t)in_c, w->in_w * in_c, in_c, to);
            } else {
                tile(p, iy, ix, patch);
                input(patch, 4 * in_c, in_c, to);
            }
        }
        for (uint32_t o = 0;;) {
            for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t shift = (uint32_t)ch->shift[o + i];
                constants[i] = (mica_rv32_winograd_constants_t) {
                    .bias = ch->bias[o + i] * 4, .mult = ch->mult[o + i],
                    .round = (1 << shift) + (ch->y_zero + 128) * (2 << shift), .shift = (int32_t)shift + 1,
                };
                weights(ch->weights + (size_t)(o + i) * 9 * in_c, in_c, w4 + i);
            }
            args.x = tiles;
            for (uint32_t i = 0; i < n; ++i, args.x += PITCH * in_c) {
                for (uint32_t j = 0; j < 4; ++j) {
                    const uint32_t t = at + 4 * i + j < total ? at + 4 * i + j : total - 1;
                    uint32_t oy = t / across * 2, ox = t % across * 2;
                    oy = oy + 2 <= rows ? oy : oy - 1;
                    ox = ox + 2 <= w->out_w ? ox : ox - 1u;
                    args.y[j] = y + (size_t)(oy * w->out_w + ox) * out_c + o;
                }
                mica_rv32_winograd(&args);
            }
            if (o + 4 == out_c) {
                break;
            }
            o = o + 8 <= out_c ? o + 4 : out_c - 4;  // the last four may overlap those before
        }
        at += 4 * n;
        groups -= n;
    }
    mica_rv32_clamp(ch, y, rows * args.row);
    return true;
}

#endif

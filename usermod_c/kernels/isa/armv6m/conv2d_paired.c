// Convolution of windows three columns wide, stride 1 along a row, on a Cortex-M0+: two neighbouring outputs share
// products (paired.S), 24 cycles for 12 multiply-accumulates where conv2d.c takes 30. Of padding, channels and sizes
// all is taken; groups and claims without FAST are not. Weights in codes are looked up pair by pair where channels are
// multiples of four, which takes 0.7 cycles a weight more than bytes do; else they become bytes first, row by row, once
// a tile, for 3.5 more.
//
// A lane is two neighbouring columns of the output, `rows` rows high; four lanes are a group, whose input is a plane of
// words for each of both products. Channels go in parts, as the weights of one have to fit the stack. Bytes of scratch:
// 32 for each input channel and row of the input of a group, 32 for each row of its output and 16; and a pixel outside
// the image. Where that is too much, words of one part at a time, and sums of all output channels.
#include "kernels.h"
#if !defined(MICA_WITHOUT_CONV2D_S8) && !defined(MICA_WITHOUT_PAIRED)

#include "requant.h"
#include "shape.h"

#define LEAST 6000  // eights of cycles: of less not even the choice would pay
#define LARGE 64000  // from here on it pays to look at parts that are filled in alone as well
#define LEAST_PART 8  // channels of such a part

// How weights lie, and become words.
typedef enum {
    BYTES,
    DECODED,    // codes that become bytes
    LOOKED_UP,  // codes, of four channels at a time
} weights_t;

// How outputs are cut into lanes and tiles, and channels into parts.
typedef struct {
    uint32_t pairs;           // columns of lanes; the last one may overlap the one before
    uint32_t rows;            // of the output, of each lane; the last segment of a column may overlap the one before
    uint32_t in_rows;         // of the input, of each lane
    uint32_t lanes, groups;   // of all; the last group may have its last lane more than once
    uint32_t most;            // groups of a tile
    uint32_t parts, part;     // parts of the input's channels, and channels of one
    uint32_t filled;          // channels whose words are in scratch at a time: of one part, or of all
    uint32_t row;             // eights of cycles that a row of weights takes, once a tile
} cut_t;

// What a cut takes, in eights of cycles: within a few percent of what is counted (tests/bench/test_winograd.py).
static uint32_t cost(const mica_window_t *w, const cut_t *c) {
    const uint32_t tiles = (c->groups + c->most - 1) / c->most, words = (uint32_t)w->kernel_h * w->in_c;
    const uint32_t group = w->out_c * (c->rows * (6 * words + 33 + 18 * c->parts) + 14 * c->parts)
        + c->in_rows * (10u * w->in_c + (c->filled == w->in_c ? 26 : 78 * c->parts)) + 300;
    return c->groups * group + tiles * (w->out_c * c->row + 60) + 200;
}

// The cheapest height of lanes that fits, of `rows` rows; below *limit.
static bool choose_rows(const mica_window_t *w, uint32_t rows, uint32_t room, cut_t c, uint32_t *limit, cut_t *best) {
    bool found = false;
    const uint32_t sums = c.filled == w->in_c ? 32 : 32u * w->out_c;
    c.rows = 0;
    for (uint32_t segments = 1; segments <= rows; ++segments) {
        const uint32_t height = (rows + segments - 1) / segments;
        if (height == c.rows) {
            continue;
        }
        c.rows = height;
        c.in_rows = (height - 1) * w->stride_h + w->kernel_h;
        const uint64_t bytes = (uint64_t)32 * c.filled * c.in_rows + (uint64_t)sums * height + 16;
        if (bytes > room) {
            continue;
        }
        c.most = room / (uint32_t)bytes;
        c.lanes = c.pairs * ((rows + height - 1) / height);
        c.groups = (c.lanes + 3) / 4;
        const uint32_t takes = cost(w, &c);
        if (takes < *limit) {
            *limit = takes;
            *best = c;
            found = true;
        }
    }
    return found;
}

// Of each three weights two words; what becomes bytes before does so again for channels that are filled in later.
static uint32_t row_cost(const mica_window_t *w, const cut_t *c, weights_t weights) {
    const uint32_t words = (uint32_t)w->kernel_h * w->in_c, calls = 53 * c->parts;
    if (weights == LOOKED_UP) {
        return 3 * words + calls;
    }
    const uint32_t unpacked = 11 * words / 4 + calls;
    return weights == DECODED ? unpacked + 3 * words / 2 * (c->filled == w->in_c ? 1 : c->parts) : unpacked;
}

// The cheapest cut; false: none takes less than `limit`.
static bool choose(const mica_window_t *w, uint32_t rows, uint32_t room, weights_t weights, uint32_t limit,
    cut_t *best) {
    const uint32_t extra = weights == LOOKED_UP ? 3 : 0;  // parts are multiples of one more
    const uint32_t most = (MICA_PAIRED_WORDS / w->kernel_h) & ~extra, parts = (w->in_c + most - 1) / most;
    cut_t c = { .pairs = (w->out_w + 1u) / 2, .parts = parts, .filled = w->in_c };
    c.part = ((w->in_c + parts - 1) / parts + extra) & ~extra;
    c.row = row_cost(w, &c, weights);
    const bool large = limit >= LARGE;
    bool found = choose_rows(w, rows, room, c, &limit, best);
    for (c.parts = parts < 2 ? 2 : parts; large && c.parts <= 4 * parts && (!found || best->groups > best->most);
        c.parts *= 2) {
        const uint32_t part = (w->in_c + c.parts - 1) / c.parts;
        if (part < LEAST_PART) {
            break;
        }
        c.part = c.filled = (part + extra) & ~extra;
        c.row = row_cost(w, &c, weights);
        found |= choose_rows(w, rows, room, c, &limit, best);
    }
    return found;
}

// What lane `lane` of a group reads, for channels [c, c + n): two planes, `plane` words apart.
static void put(const mica_conv2d_s8_t *p, uint32_t *to, uint32_t plane, const int8_t *outside, int32_t iy, int32_t ix,
    uint32_t in_rows, uint32_t c, uint32_t n) {
    const mica_window_t *w = &p->win;
    const int32_t in_c = w->in_c, pitch = w->in_w * in_c;
    const int32_t above = iy < 0 ? (-iy < (int32_t)in_rows ? -iy : (int32_t)in_rows) : 0;
    int32_t inside = w->in_h - iy - above;
    inside = inside < 0 ? 0 : inside < (int32_t)in_rows - above ? inside : (int32_t)in_rows - above;
    const int32_t below = (int32_t)in_rows - above - inside;
    for (int32_t kind = 0; kind < 2; ++kind, to += plane) {
        const int32_t first = 1 + kind, second = 3 * kind;
        const bool first_inside = ix + first >= 0 && ix + first < w->in_w,
            second_inside = ix + second >= 0 && ix + second < w->in_w;
        const int8_t *x = p->x + (iy + above) * pitch + ix * in_c + (int32_t)c;
        uint32_t *at = to;
        if (above) {
            mica_armv6m_paired_words(outside, at, 0, 0, n, (uint32_t)above, 0);
            at += 4 * n * (uint32_t)above;
        }
        if (first_inside && second_inside) {
            if (inside) {
                mica_armv6m_paired_words(x, at, first * in_c, second * in_c, n, (uint32_t)inside, pitch);
                at += 4 * n * (uint32_t)inside;
            }
        } else {
            for (int32_t i = 0; i < inside; ++i, x += pitch, at += 4 * n) {
                const int32_t away = (int32_t)((uintptr_t)outside - (uintptr_t)x);
                mica_armv6m_paired_words(x, at, first_inside ? first * in_c : away,
                    second_inside ? second * in_c : away, n, 1, 0);
            }
        }
        if (below) {
            mica_armv6m_paired_words(outside, at, 0, 0, n, (uint32_t)below, 0);
        }
    }
}

// The first output of a lane.
static void find(const cut_t *cut, const mica_window_t *w, uint32_t rows, uint32_t lane, uint32_t *oy, uint32_t *ox) {
    lane = lane < cut->lanes ? lane : cut->lanes - 1;
    const uint32_t segment = lane / cut->pairs, y = segment * cut->rows, x = (lane - segment * cut->pairs) * 2;
    *oy = y + cut->rows <= rows ? y : rows - cut->rows;
    *ox = x + 2 <= w->out_w ? x : w->out_w - 2u;
}

// Of n lanes from `at` on.
static void find_places(const cut_t *cut, const mica_window_t *w, uint32_t rows, uint32_t at, uint32_t n, int8_t *y,
    mica_paired_places_t *places) {
    const int8_t *before = y;
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t oy, ox;
        find(cut, w, rows, at + i, &oy, &ox);
        int8_t *place = y + (size_t)(oy * w->out_w + ox) * w->out_c;
        if (i % 4 == 0) {
            places[i / 4].y = place;
        } else {
            places[i / 4].lanes[i % 4 - 1] = (int32_t)(place - before) + (int32_t)(2u * w->out_c);
        }
        before = place;
    }
}

// Pairs of codes as mica_armv6m_decode wants them.
static void turn(uint32_t *pairs) {
    for (uint32_t i = 0; i < MICA_CODE_PAIRS; ++i) {
        const uint32_t v = pairs[i] + 0x8000;  // the second + the first * 2^16, without a borrow
        pairs[i] = (v >> 16 & 0xff) | (v & 0xff) << 16;
    }
}

static weights_t how_coded(const mica_window_t *w) {
    return w->in_c % 4 == 0 && w->kernel_h <= MICA_PAIRED_WORDS / 4 ? LOOKED_UP : DECODED;
}

// Channels `from` to `to` of lane i, of n groups.
static void put_lane(const mica_conv2d_s8_t *p, const cut_t *cut, uint32_t *x, uint32_t n, uint32_t i, uint32_t oy,
    uint32_t ox, uint32_t from, uint32_t to, const int8_t *outside) {
    const uint32_t plane_rows = 4 * cut->in_rows;  // words of a channel
    const int32_t iy = (int32_t)oy * p->win.stride_h - p->win.pad_top, ix = (int32_t)ox - p->win.pad_left;
    for (uint32_t c = from; c < to; c += cut->part) {
        const uint32_t channels = to - c < cut->part ? to - c : cut->part;
        uint32_t *words = x + n * 2 * plane_rows * (c - from) + i / 4 * 2 * plane_rows * channels + i % 4;
        put(p, words, plane_rows * channels, outside, iy, ix, cut->in_rows, c, channels);
    }
}

static bool takes(const mica_conv2d_s8_t *p) {
    const mica_window_t *w = &p->win;
    return w->kernel_w == 3 && w->stride_w == 1 && w->dilation_h == 1 && w->dilation_w == 1 && w->kernel_h >= 2
        && w->kernel_h <= MICA_PAIRED_WORDS && p->groups == 1 && w->out_w >= 2 && p->ch.fast;
}

bool mica_conv2d_paired_armv6m(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end, void *scratch,
    size_t scratch_bytes, uint32_t direct, uint32_t *pairs) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
#ifdef MICA_PAIRED_ALWAYS  // wherever it applies, for tests
    direct = UINT32_MAX;
#endif
    const uint32_t in_c = w->in_c, out_c = w->out_c, rows = row_end - row_begin, outside_bytes = (in_c + 3) & ~3u;
    if (direct < LEAST || !takes(p) || (pairs == NULL && ch->layout != MICA_LAYOUT_ROWS)) {
        return false;
    }
    const weights_t weights = pairs == NULL ? BYTES : how_coded(w);
    const uint32_t file_row = mica_row_bytes(ch->layout, 3u * w->kernel_h * in_c),
        decoded_bytes = weights == DECODED ? 2 * file_row : 0;
    if (scratch_bytes <= outside_bytes + decoded_bytes) {
        return false;
    }
    const uint32_t room = (uint32_t)(scratch_bytes - outside_bytes - decoded_bytes) / 4 * 4;
    cut_t cut;
    if (!choose(w, rows, room, weights, direct, &cut)) {
        return false;
    }
    uint32_t groups = cut.groups, tiles = (groups + cut.most - 1) / cut.most;
    uint32_t *const decoded = (uint32_t *)scratch + room / 4;
    int8_t *outside = (int8_t *)scratch + room + decoded_bytes;
    if (weights == DECODED) {
        turn(pairs);
    }
    mica_fill(outside, p->x_zero, in_c);
    const uint32_t half = weights == LOOKED_UP ? 1 : 0;  // of a byte, a weight
    mica_paired_t args = {
        .rows = cut.rows,
        .next = ((int32_t)w->stride_h - w->kernel_h) * 16,
        .kernel_rows = w->kernel_h,
        .weights_pitch = 3 * in_c >> half,
        .second = (int32_t)(in_c >> half),
        .back = -(int32_t)out_c,
        .pitch = w->out_w * out_c,
        .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min),
        .low = ch->act_min,
        .pairs = pairs,
    };
    void (*const run)(const mica_paired_t *) = weights == LOOKED_UP ? mica_armv6m_paired_codes : mica_armv6m_paired;
    const int32_t next = args.next;
    const uint32_t plane_rows = 4 * cut.in_rows;  // words of a channel
    int8_t *const y = p->y + (size_t)row_begin * w->out_w * out_c;
    for (uint32_t at = 0; tiles; --tiles) {  // as few as fit, of about the same size
        const uint32_t n = (groups + tiles - 1) / tiles, sums = 8 * n * cut.rows;
        int32_t *const first_sums = (int32_t *)scratch + n * 2 * plane_rows * cut.filled;
        mica_paired_places_t *places =
            (mica_paired_places_t *)(void *)(first_sums + (cut.filled == in_c ? 1 : out_c) * sums);
        args.groups = n;
        args.places = places;
        find_places(&cut, w, rows, at, 4 * n, y, places);
        for (uint32_t from = 0; from < in_c; from += cut.filled) {
            const uint32_t to = in_c - from < cut.filled ? in_c : from + cut.filled;
            for (uint32_t i = 0; i < 4 * n; ++i) {
                uint32_t oy, ox;
                find(&cut, w, rows, at + i, &oy, &ox);
                put_lane(p, &cut, scratch, n, i, row_begin + oy, ox, from, to, outside);
            }
            args.sums = first_sums;
            for (uint32_t o = 0; o < out_c; ++o) {
                args.bias = ch->bias[o];
                args.mult = ch->mult[o];
                args.shift = (uint32_t)ch->shift[o];
                args.y_offset = o + out_c;
                const int8_t *row = ch->weights + (size_t)file_row * o;
                if (weights == DECODED) {
                    mica_armv6m_decode(decoded, row, row + file_row, pairs);
                    row = (const int8_t *)decoded;
                }
                for (uint32_t c = from; c < to; c += args.channels) {
                    args.channels = to - c < cut.part ? to - c : cut.part;
                    args.weights = row + (c >> half);
                    args.x = (uint32_t *)scratch + n * 2 * plane_rows * (c - from);
                    args.next = next * (int32_t)args.channels;
                    args.next_group = (int32_t)(4 * plane_rows * args.channels);
                    args.first = 0;
                    args.flags = c ? 3 : 2;
                    run(&args);
                    args.x += plane_rows * args.channels;
                    args.first = 2 * args.second;
                    args.flags = c + args.channels < in_c ? 3 : 1;
                    run(&args);
                }
                args.sums += cut.filled == in_c ? 0 : sums;
            }
        }
        at += 4 * n;
        groups -= n;
    }
    return true;
}

#endif

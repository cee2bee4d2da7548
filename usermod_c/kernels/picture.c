// mica: frames of cameras as pictures of networks. See picture.h; the arithmetic is SPEC.md's, "Pictures".
//
// Both methods give each colour of a pixel as whole steps of 1/32 of what the frame has, in one word or a few: 5 bits of
// fraction, for the weights of four neighbours that sum up to 32 leave room between the fields of a 565 word. What follows,
// conversion and quantisation, is the same for both. The loops are written once for each kind of frame, and inlined with it.

#include "picture.h"

#include <string.h>

#include "mica_select.h" // of an instruction set's folder: MICA_PICTURE_WORDS and the like, where it has loops of its own

#define INLINE static inline __attribute__((always_inline))

// How pixels lie in memory: what the loops below are made for.
typedef enum {
    BYTES,   // grey
    PAIRS,   // the Y of YUV 4:2:2, one byte of two
    WORDS,   // 565, aligned, low byte first
    SWAPPED, // 565, aligned, high byte first
    HALVES,  // 565, not aligned
    TRIPLES, // red, green, blue, or the other way round
    CHROMA,  // YUV 4:2:2 with its colours
} kind_t;

#define FIELDS (0x07e0f81fu) // green, red, blue of a 565 word with itself in the upper half: each with 5 bits of room
#define FIELDS_ROOM (32u)
#define TWICE (0x10001u)     // times a half word: the word of it twice
#define COLUMNS (196u)       // whose sums are on the stack: of a box at least

// What a row is made with. first, second: where the byte of a triple or half that is red, or the high one, and its opposite lie;
// of YUYV and UYVY the Y and the U.
typedef struct {
    uint32_t first, second;
    const int8_t *tables[3]; // for red (or grey), green, blue
    uint32_t to[3];          // where they are stored, from a pixel on
    uint32_t pixel;          // from there to the next pixel
} form_t;

// The colours of one pixel with 5 bits of fraction: red (or grey, or Y), green (or U), blue (or V); packed: a sum of FIELDS.
typedef struct {
    uint32_t a, b, c;
} sum_t;

// The bytes of a word the other way round: one instruction where a core has it.
INLINE uint32_t turned(uint32_t v) {
    #ifdef __arm__
    return __builtin_bswap32(v); // elsewhere perhaps a call of a function
    #else
    return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
    #endif
}

INLINE uint32_t limited(int32_t v) {
    return v < 0 ? 0 : v > 255 ? 255 : (uint32_t)v;
}

// ---- From sums to bytes

INLINE void store_grey(kind_t kind, sum_t s, const form_t *f, int8_t *out) {
    uint32_t grey;
    if (kind == BYTES || kind == PAIRS) {
        grey = (s.a + 16) >> 5;
    } else if (kind == TRIPLES) {
        grey = (s.a * 77 + s.b * 150 + s.c * 29 + 4096) >> 13;
    } else {
        grey = (s.a * 5067 + s.b * 4857 + s.c * 1908 + 32768) >> 16;
    }
    *out = f->tables[0][grey];
}

INLINE void store_colour(kind_t kind, sum_t s, const form_t *f, int8_t *out) {
    uint32_t r, g, b;
    if (kind == TRIPLES) {
        r = (s.a + 16) >> 5;
        g = (s.b + 16) >> 5;
        b = (s.c + 16) >> 5;
    } else if (kind == CHROMA) {
        const int32_t y = (int32_t)s.a * 256 + 4096, u = (int32_t)s.b - 4096, v = (int32_t)s.c - 4096;
        r = limited((y + 359 * v) >> 13);
        g = limited((y - 88 * u - 183 * v) >> 13);
        b = limited((y + 454 * u) >> 13);
    } else {
        r = (s.a * 16847 + 32768) >> 16;
        g = (s.b * 8290 + 32768) >> 16;
        b = (s.c * 16847 + 32768) >> 16;
    }
    out[f->to[0]] = f->tables[0][r];
    out[f->to[1]] = f->tables[1][g];
    out[f->to[2]] = f->tables[2][b];
}

INLINE void store(kind_t kind, bool colour, sum_t s, const form_t *f, int8_t *out) {
    if (colour) {
        store_colour(kind, s, f, out);
    } else {
        store_grey(kind, s, f, out);
    }
}

// ---- From a frame to sums

INLINE uint32_t pixel_bytes(kind_t kind) {
    return kind == BYTES ? 1 : kind == TRIPLES ? 3 : 2;
}

INLINE bool packed(kind_t kind) {
    return kind == WORDS || kind == SWAPPED || kind == HALVES;
}

// One word of a pixel whose colours fit one: FIELDS of a 565 pixel, or its only byte.
INLINE uint32_t pixel_word(kind_t kind, const uint8_t *p, const form_t *f) {
    uint32_t v;
    if (kind == BYTES || kind == PAIRS) {
        return *p;
    }
    if (kind == HALVES) {
        v = (uint32_t)p[f->first] << 8 | p[f->second];
    } else {
        v = *(const uint16_t __attribute__((may_alias)) *)p;
        if (kind == SWAPPED) {
            v = turned(v); // the pixel is the upper half now
            return (v | v >> 16) & FIELDS;
        }
    }
    return v * TWICE & FIELDS;
}

INLINE sum_t apart(kind_t kind, uint32_t v) {
    const sum_t s = { packed(kind) ? v >> 11 & 1023 : v, v >> 21, v & 2047 };
    return s;
}

// Byte k of a pixel: 0 red or Y, 1 green or U, 2 blue or V. p: the pixel, of CHROMA its pair; odd: its place in that.
INLINE uint32_t pixel_byte(kind_t kind, const uint8_t *p, uint32_t k, uint32_t odd, const form_t *f) {
    if (kind == TRIPLES) {
        return k == 1 ? p[1] : p[k == 0 ? f->first : f->second];
    }
    return k == 0 ? p[f->first + 2 * odd] : p[f->second + (k == 2 ? 2 : 0)];
}

// ---- Bilinear

// `n` pixels between two rows, from place `at` on, which is in 1/65536 of a pixel of the frame; the one to the right of each is there.
INLINE void between(kind_t kind, bool colour, const uint8_t *row0, const uint8_t *row1, uint32_t at, uint32_t step, uint32_t wy, uint32_t n,
    const form_t *f, int8_t *out) {
    const uint32_t size = pixel_bytes(kind);
    for (; n != 0; n--, at += step, out += colour ? f->pixel : 1) {
        const uint32_t wx = at >> 11 & 31, w11 = wx * wy >> 5, w01 = wx - w11, w10 = wy - w11, w00 = 32 - wx - w10;
        sum_t s;
        if (kind == TRIPLES || kind == CHROMA) {
            const uint32_t column = at >> 16, odd = kind == CHROMA ? column & 1 : 0;
            const uint8_t *p = row0 + (column - odd) * size, *q = row1 + (column - odd) * size;
            // Of an odd pixel the right neighbour is the even one of the next pair.
            const uint32_t next = kind == TRIPLES ? size : 4 * odd, next_odd = kind == TRIPLES ? 0 : odd ^ 1;
            uint32_t sums[3];
            for (uint32_t k = 0; k < 3; k++) {
                sums[k] = pixel_byte(kind, p, k, odd, f) * w00 + pixel_byte(kind, p + next, k, next_odd, f) * w01
                    + pixel_byte(kind, q, k, odd, f) * w10 + pixel_byte(kind, q + next, k, next_odd, f) * w11;
            }
            s = (sum_t) { sums[0], sums[1], sums[2] };
        } else {
            const uint8_t *p = row0 + (at >> 16) * size, *q = row1 + (at >> 16) * size;
            s = apart(kind, pixel_word(kind, p, f) * w00 + pixel_word(kind, p + size, f) * w01 + pixel_word(kind, q, f) * w10
                    + pixel_word(kind, q + size, f) * w11);
        }
        store(kind, colour, s, f, out);
    }
}

typedef void between_t(const uint8_t *, const uint8_t *, uint32_t, uint32_t, uint32_t, uint32_t, const form_t *, int8_t *);

// ---- Area

// The means of boxes of a row: each of `ny` rows and nx columns, or of nx + 1 where `rest` overflows `of`, or of 1 where that is none.
typedef struct {
    uint32_t nx, rest, of, x, ny;
    uint32_t stride;       // bytes of a row of the frame
    uint32_t end;          // the column behind the last box
    const uint32_t *reciprocals;
    // Of boxes that go together, `columns`: how many; of what they are wider than nx, the whole columns and what is left of one.
    uint32_t most, wider, over;
} boxes_t;

// The column behind `n` boxes from x on, of which the first is `part` of a column wider: `most` of them, or all that are left.
INLINE uint32_t behind(const boxes_t *b, uint32_t x, uint32_t part, uint32_t n, bool last) {
    return last ? b->end : x + n * b->nx + b->wider + (part + b->over >= b->of);
}

// Any kind, pixel after pixel: what is not aligned, or taller than a word has room for, and three bytes.
static void means(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f, int8_t *out) {
    const uint32_t size = pixel_bytes(kind);
    uint32_t x = b->x, part = 0;
    for (uint32_t n = b->of; n != 0; n--, out += colour ? f->pixel : 1) {
        part += b->rest;
        const uint32_t more = part >= b->of;
        part -= more ? b->of : 0;
        const uint32_t whole = b->nx + more, nx = whole == 0 ? 1 : whole;
        const uint32_t reciprocal = b->reciprocals[nx != b->nx];
        sum_t s = { 0, 0, 0 };
        uint32_t fields = 0, room = FIELDS_ROOM;
        const uint8_t *start = row + x * size;
        for (uint32_t rows = b->ny; rows != 0; rows--, start += b->stride) {
            const uint8_t *p = start;
            uint32_t left = nx;
            if (kind == TRIPLES || kind == CHROMA) {
                for (uint32_t column = x; left != 0; left--, column++, p += size) {
                    const uint32_t odd = kind == CHROMA ? column & 1 : 0;
                    s.a += pixel_byte(kind, p - 2 * odd, 0, odd, f);
                    s.b += pixel_byte(kind, p - 2 * odd, 1, odd, f);
                    s.c += pixel_byte(kind, p - 2 * odd, 2, odd, f);
                }
                continue;
            }
            while (left != 0) {
                uint32_t k = packed(kind) && room < left ? room : left;
                left -= k;
                room -= packed(kind) ? k : 0;
                for (; k >= 4; k -= 4, p += 4 * size) {
                    fields += pixel_word(kind, p, f) + pixel_word(kind, p + size, f) + pixel_word(kind, p + 2 * size, f)
                        + pixel_word(kind, p + 3 * size, f);
                }
                if (k & 2) {
                    fields += pixel_word(kind, p, f) + pixel_word(kind, p + size, f);
                    p += 2 * size;
                }
                if (k & 1) {
                    fields += pixel_word(kind, p, f);
                    p += size;
                }
                if (packed(kind) && room == 0) {
                    const sum_t some = apart(kind, fields);
                    s = (sum_t) { s.a + some.a, s.b + some.b, s.c + some.c };
                    fields = 0;
                    room = FIELDS_ROOM;
                }
            }
        }
        if (kind != TRIPLES && kind != CHROMA) {
            const sum_t some = apart(kind, fields);
            s = (sum_t) { s.a + some.a, s.b + some.b, s.c + some.c };
        }
        s.a = s.a * reciprocal >> 19;
        s.b = s.b * reciprocal >> 19;
        s.c = s.c * reciprocal >> 19;
        store(kind, colour, s, f, out);
        x += whole;
    }
}

// ---- Area, of frames that are read four bytes at a time: columns first, then boxes of them

// Sums of rows that take `bytes` together, one for each column, of words of the frame: uint16 for what has a byte, FIELDS for 565. `down`:
// where the byte of a PAIR lies. Functions of their own, so that all of it has registers.
INLINE void sum_columns(kind_t kind, const uint8_t *p, uint32_t stride, uint32_t bytes, uint32_t down, uint32_t *to, const uint32_t *to_end) {
    const uint8_t *end = p + bytes;
    do {
        uint32_t even = 0, odd = 0;
        do {
            uint32_t v = *(const mica_word_t *)(const void *)p;
            p += stride;
            if (kind == BYTES) {
                even += v & 0xff00ff;
                odd += v >> 8 & 0xff00ff;
            } else if (kind == PAIRS) {
                even += v >> down & 0xff00ff;
            } else {
                v = kind == SWAPPED ? turned(v) : v; // so the pixels change places, too
                even += v & FIELDS;                             // red and blue of a pixel, green of the other
                odd += (v >> 16 | v << 16) & FIELDS;
            }
        } while (p != end);
        p = p - bytes + 4;
        end += 4;
        if (kind == BYTES) {
            to[0] = (even & 0xffff) | odd << 16;
            to[1] = even >> 16 | (odd & 0xffff0000);
            to += 2;
        } else if (kind == PAIRS) {
            *to++ = even;
        } else {
            const uint32_t greens = (even ^ odd) >> 21 << 21; // whose sums begin at bit 21
            to[kind == SWAPPED] = even ^ greens;
            to[kind != SWAPPED] = odd ^ greens;
            to += 2;
        }
    } while (to != to_end);
}

#define SUMS_OF(name, kind) \
    static __attribute__((noinline)) void sum_##name( \
        const uint8_t *p, uint32_t stride, uint32_t bytes, uint32_t down, uint32_t *to, const uint32_t *to_end) { \
        sum_columns(kind, p, stride, bytes, down, to, to_end); \
    }
SUMS_OF(bytes, BYTES)
SUMS_OF(pairs, PAIRS)
SUMS_OF(words, WORDS)
SUMS_OF(swapped, SWAPPED)

// The sums of `n` words, more than none.
static void sum(kind_t kind, const uint8_t *row, const boxes_t *b, uint32_t n, const form_t *f, uint32_t *to) {
    const uint32_t bytes = b->ny * b->stride;
    #ifdef MICA_PICTURE_WORDS
    if (b->ny <= MICA_PICTURE_ROWS) {
        (kind == WORDS ? MICA_PICTURE_WORDS
            : kind == SWAPPED ? MICA_PICTURE_SWAPPED
            : kind != PAIRS ? MICA_PICTURE_BYTES
            : f->first == 0 ? MICA_PICTURE_PAIRS : MICA_PICTURE_PAIRS_HIGH)(row, b->stride, b->ny, to, kind == PAIRS ? to + n : to + 2 * n);
        return;
    }
    #endif
    switch (kind) {
        case PAIRS:
            sum_pairs(row, b->stride, bytes, 8 * f->first, to, to + n);
            break;
        case WORDS:
            sum_words(row, b->stride, bytes, 0, to, to + 2 * n);
            break;
        case SWAPPED:
            sum_swapped(row, b->stride, bytes, 0, to, to + 2 * n);
            break;
        default:
            sum_bytes(row, b->stride, bytes, 0, to, to + 2 * n);
    }
}

INLINE uint32_t column_of(kind_t kind, const void *columns, uint32_t i) {
    return packed(kind) ? ((const uint32_t *)columns)[i] : ((const uint16_t __attribute__((may_alias)) *)columns)[i];
}

// The means of `n` boxes in a row, which begin at `columns`. part: of a column, that the last box left over.
INLINE void means_of(kind_t kind, bool colour, const uint8_t *columns, uint32_t n, uint32_t *part, const boxes_t *b,
    const form_t *f, int8_t *out) {
    const uint32_t bytes = packed(kind) ? 4 : 2; // of a column
    const uint32_t rest = b->rest, of = b->of, narrow = b->nx, thin = b->reciprocals[0], wide = b->reciprocals[1];
    const bool one = (narrow + (rest != 0)) * b->ny <= FIELDS_ROOM; // whether a box's sum has room in a word
    #ifdef MICA_PICTURE_WORDS
    if (packed(kind) ? one && narrow < FIELDS_ROOM : narrow < MICA_PICTURE_MOST_SINGLES) {
        const mica_picture_means_t args = {
            .out = out,
            .over = *part,
            .rest = rest,
            .of = of,
            .thin = thin,
            .columns_of_one = narrow,
            .pixel = f->pixel,
            .wide = wide,
            .tables = { f->tables[0], f->tables[1], f->tables[2] },
            .to = { f->to[0], f->to[1], f->to[2] },
            .out_end = out + n * (colour ? f->pixel : 1),
            .columns = columns,
        };
        *part = (!packed(kind) ? MICA_PICTURE_SINGLES : colour ? MICA_PICTURE_COLOUR_MEANS : MICA_PICTURE_GREY_MEANS)(&args);
        return;
    }
    #endif
    uint32_t over = *part;
    for (int8_t *end = out + n * (colour ? f->pixel : 1); out != end; out += colour ? f->pixel : 1) {
        uint32_t nx = narrow, reciprocal = thin;
        over += rest;
        if (over >= of) {
            over -= of;
            nx++;
            reciprocal = wide;
        }
        sum_t s = { 0, 0, 0 };
        if (!packed(kind) || one) {
            uint32_t v = 0;
            if (nx & 1) {
                v = column_of(kind, columns, 0);
                columns += bytes;
            }
            if (nx & 2) {
                v += column_of(kind, columns, 0) + column_of(kind, columns, 1);
                columns += 2 * bytes;
            }
            for (nx >>= 2; nx != 0; nx--, columns += 4 * bytes) {
                v += column_of(kind, columns, 0) + column_of(kind, columns, 1) + column_of(kind, columns, 2)
                    + column_of(kind, columns, 3);
            }
            s = apart(kind, v);
        } else {
            for (; nx != 0; nx--, columns += bytes) {
                const sum_t some = apart(kind, column_of(kind, columns, 0));
                s = (sum_t) { s.a + some.a, s.b + some.b, s.c + some.c };
            }
        }
        s.a = s.a * reciprocal >> 19;
        if (packed(kind)) {
            s.b = s.b * reciprocal >> 19;
            s.c = s.c * reciprocal >> 19;
        }
        store(kind, colour, s, f, out);
    }
    *part = over;
}

// like: of the kinds that have the same columns, the one whose loops are taken.
INLINE void means_by_columns(kind_t kind, kind_t like, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f, int8_t *out) {
    const uint32_t size = pixel_bytes(kind), places = size == 1 ? 2 : 1; // pixels of a word: 2^places
    uint32_t columns[COLUMNS];
    uint32_t x = b->x, part = 0;
    for (uint32_t left = b->of; left != 0;) {
        const uint32_t n = b->most < left ? b->most : left;
        const uint32_t next = behind(b, x, part, n, n == left), first = x >> places << places;
        sum(kind, row + first * size, b, (next - first + (1u << places) - 1) >> places, f, columns);
        means_of(like, colour, (const uint8_t *)columns + (x - first) * (packed(like) ? 4 : 2), n, &part, b, f, out);
        out += n * (colour ? f->pixel : 1);
        left -= n;
        x = next;
    }
}

typedef uint16_t __attribute__((may_alias)) half_t;

// The same of frames whose colours have bytes of their own: sums of bytes, one uint16 each, from the first pixel's on, of CHROMA from
// its pair's. odd: that pixel's place in the pair.
INLINE void means_of_bytes(kind_t kind, bool colour, const half_t *sums, uint32_t odd, uint32_t n, uint32_t *part, const boxes_t *b,
    const form_t *f, int8_t *out) {
    #ifdef MICA_PICTURE_WORDS
    if (kind == TRIPLES && b->nx < MICA_PICTURE_MOST_TRIPLES) {
        static const uint8_t weights[3] = { 77, 150, 29 };
        mica_picture_means_t args = {
            .out = out,
            .over = *part,
            .rest = b->rest,
            .of = b->of,
            .thin = b->reciprocals[0],
            .columns_of_one = b->nx,
            .pixel = f->pixel,
            .wide = b->reciprocals[1],
            .out_end = out + n * (colour ? f->pixel : 1),
            .columns = sums,
        };
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t of = f->first != 0 ? 2 - k : k; // which colour the k-th byte is
            args.tables[k] = f->tables[colour ? of : 0];
            args.to[k] = colour ? f->to[of] : weights[of];
        }
        *part = (colour ? MICA_PICTURE_TRIPLES_COLOURS : MICA_PICTURE_TRIPLES_GREY)(&args);
        return;
    }
    #endif
    uint32_t over = *part;
    for (; n != 0; n--, out += colour ? f->pixel : 1) {
        over += b->rest;
        const uint32_t more = over >= b->of;
        over -= more ? b->of : 0;
        const uint32_t nx = b->nx + more, reciprocal = b->reciprocals[more];
        uint32_t s0 = 0, s1 = 0, s2 = 0;
        if (kind == TRIPLES) {
            for (const half_t *end = sums + 3 * nx; sums != end; sums += 3) {
                s0 += sums[0];
                s1 += sums[1];
                s2 += sums[2];
            }
            if (f->first != 0) {
                const uint32_t red = s2;
                s2 = s0;
                s0 = red;
            }
        } else {
            uint32_t left = nx;
            const half_t *y = sums + f->first, *u = sums + f->second;
            if (odd != 0) {
                s0 = y[2];
                s1 = u[0];
                s2 = u[2];
                y += 4;
                u += 4;
                left--;
            }
            for (; left >= 2; left -= 2, y += 4, u += 4) {
                s0 += y[0] + y[2];
                s1 += 2u * u[0];
                s2 += 2u * u[2];
            }
            odd = left;
            if (left != 0) {
                s0 += y[0];
                s1 += u[0];
                s2 += u[2];
            }
            sums = y - f->first;
        }
        const sum_t s = { s0 * reciprocal >> 19, s1 * reciprocal >> 19, s2 * reciprocal >> 19 };
        store(kind, colour, s, f, out);
    }
    *part = over;
}

// A box that is too wide for `columns` goes pixel after pixel.
INLINE void means_by_bytes(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f, int8_t *out) {
    const uint32_t size = pixel_bytes(kind), pair = kind == CHROMA ? 1 : 0;
    uint32_t columns[COLUMNS];
    uint32_t x = b->x, part = 0;
    if (b->most == 0) {
        means(kind, colour, row, b, f, out);
        return;
    }
    for (uint32_t left = b->of; left != 0;) {
        const uint32_t n = b->most < left ? b->most : left;
        const uint32_t next = behind(b, x, part, n, n == left);
        const uint32_t begin = (x & ~pair) * size, first = begin & ~3u, end = ((next + pair) & ~pair) * size;
        sum(BYTES, row + first, b, (end - first + 3) / 4, f, columns);
        const uint8_t *sums = (const uint8_t *)columns + 2 * (begin - first);
        means_of_bytes(kind, colour, (const half_t *)(const void *)sums, x & pair, n, &part, b, f, out);
        out += n * (colour ? f->pixel : 1);
        left -= n;
        x = next;
    }
}

typedef void means_t(kind_t, bool, const uint8_t *, const boxes_t *, const form_t *, int8_t *);

// ---- One function for each kind of frame

#define BETWEEN(name, kind, colour) \
    static void between_##name(const uint8_t *row0, const uint8_t *row1, uint32_t at, uint32_t step, uint32_t wy, uint32_t n, \
        const form_t *f, int8_t *out) { \
        between(kind, colour, row0, row1, at, step, wy, n, f, out); \
    }
BETWEEN(bytes, BYTES, false)
BETWEEN(pairs, PAIRS, false)
BETWEEN(words, WORDS, false)
BETWEEN(swapped, SWAPPED, false)
BETWEEN(halves, HALVES, false)
BETWEEN(triples, TRIPLES, false)
BETWEEN(words_colour, WORDS, true)
BETWEEN(swapped_colour, SWAPPED, true)
BETWEEN(halves_colour, HALVES, true)
BETWEEN(triples_colour, TRIPLES, true)
BETWEEN(chroma_colour, CHROMA, true)

#define COLUMNS_OF(name, means) \
    static void columns_##name(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f, int8_t *out) { \
        (void)kind; \
        (void)colour; \
        means; \
    }
COLUMNS_OF(single, means_by_columns(kind, BYTES, false, row, b, f, out))
COLUMNS_OF(packed, means_by_columns(kind, WORDS, colour, row, b, f, out))
COLUMNS_OF(triples, means_by_bytes(TRIPLES, colour, row, b, f, out))
COLUMNS_OF(chroma, means_by_bytes(CHROMA, true, row, b, f, out))

// ---- Which, and how

static kind_t kind_of(const mica_picture_t *p, const uint8_t *frame) {
    switch (p->format) {
        case MICA_PICTURE_GREY:
            return BYTES;
        case MICA_PICTURE_RGB565LE:
        case MICA_PICTURE_RGB565BE:
            return (uintptr_t)frame % 2 != 0 ? HALVES : p->format == MICA_PICTURE_RGB565LE ? WORDS : SWAPPED;
        case MICA_PICTURE_RGB888:
        case MICA_PICTURE_BGR888:
            return TRIPLES;
        default:
            return p->flags & MICA_PICTURE_COLOUR ? CHROMA : PAIRS;
    }
}

static between_t *between_of(kind_t kind, bool colour) {
    switch (kind) {
        case BYTES:
            return between_bytes;
        case PAIRS:
            return between_pairs;
        case WORDS:
            return colour ? between_words_colour : between_words;
        case SWAPPED:
            return colour ? between_swapped_colour : between_swapped;
        case HALVES:
            return colour ? between_halves_colour : between_halves;
        case TRIPLES:
            return colour ? between_triples_colour : between_triples;
        default:
            return between_chroma_colour;
    }
}

// Of a kind whose rows begin at words; null where there is none.
static means_t *columns_of(kind_t kind) {
    switch (kind) {
        case BYTES:
        case PAIRS:
            return columns_single;
        case WORDS:
        case SWAPPED:
            return columns_packed;
        case TRIPLES:
            return columns_triples;
        case CHROMA:
            return columns_chroma;
        default:
            return NULL;
    }
}

size_t mica_picture_bytes(const mica_picture_t *p) {
    const uint32_t width = p->width, height = p->height;
    if (width == 0 || height == 0 || width > MICA_PICTURE_MAX_SIDE || height > MICA_PICTURE_MAX_SIDE
        || p->format >= MICA_PICTURE_FORMATS || (p->format >= MICA_PICTURE_YUYV && width % 2 != 0)) {
        return 0;
    }
    return (size_t)width * height * (p->format == MICA_PICTURE_GREY ? 1u
        : p->format == MICA_PICTURE_RGB888 || p->format == MICA_PICTURE_BGR888 ? 3u : 2u);
}

// The most of `size` pixels that one of `n` covers.
static uint32_t cover(uint32_t size, uint32_t n) {
    return (size + n - 1) / n;
}

bool mica_picture_check(const mica_picture_t *p) {
    if (mica_picture_bytes(p) == 0 || p->w == 0 || p->h == 0 || (uint32_t)p->x + p->w > p->width
        || (uint32_t)p->y + p->h > p->height || p->out_w == 0 || p->out_h == 0 || p->out_w > MICA_PICTURE_MAX_SIDE
        || p->out_h > MICA_PICTURE_MAX_SIDE || p->flags > 15) {
        return false;
    }
    if (p->flags & MICA_PICTURE_COLOUR ? p->format == MICA_PICTURE_GREY : (p->flags & (MICA_PICTURE_BGR | MICA_PICTURE_PLANES)) != 0) {
        return false;
    }
    return !(p->flags & MICA_PICTURE_AREA)
        || (cover(p->w, p->out_w) <= MICA_PICTURE_MAX_COVER && cover(p->h, p->out_h) <= MICA_PICTURE_MAX_COVER);
}

// The first of `n` places y * step + step / 2 - 0.5, in 1/65536, that is `limit` or more.
static uint32_t first_from(uint32_t limit, uint32_t step, uint32_t n) {
    const uint32_t least = limit + 32768, half = step >> 1;
    const uint32_t found = least <= half ? 0 : (least - half + step - 1) / step;
    return found < n ? found : n;
}

typedef struct {
    const mica_picture_t *p;
    const uint8_t *frame;
    kind_t kind;
    bool colour;
    uint32_t size, stride;
    form_t form;
} job_t;

// The pixels of a row that lie before the first column's middle or behind the last one's: that column's alone.
static void edge(const job_t *j, between_t *loop, const uint8_t *row0, const uint8_t *row1, uint32_t column, uint32_t wy, uint32_t n,
    int8_t *out) {
    uint8_t twice[2][6] __attribute__((aligned(2))); // the column, and itself to its right
    const uint32_t size = j->size;
    for (uint32_t k = 0; n != 0 && k < 2; k++) {
        const uint8_t *row = k == 0 ? row0 : row1;
        if (j->kind == CHROMA) {
            memcpy(twice[k], row + (column & ~1u) * 2, 4);
            twice[k][j->form.first] = twice[k][j->form.first + 2] = row[column * 2 + j->form.first];
        } else {
            const size_t used = j->kind == PAIRS ? 1 : size; // behind the last Y of UYVY the frame ends
            memcpy(twice[k], row + column * size, used);
            memcpy(twice[k] + size, row + column * size, used);
        }
    }
    if (n != 0) {
        loop(twice[0], twice[1], 0, 0, wy, n, &j->form, out);
    }
}

static void bilinear_rows(const job_t *j, uint32_t begin, uint32_t end, int8_t *out) {
    const mica_picture_t *p = j->p;
    const uint32_t w = p->w, h = p->h, n = p->out_w, x_step = (w << 16) / n, y_step = (h << 16) / p->out_h;
    const uint32_t left = first_from(0, x_step, n), right = first_from((w - 1) << 16, x_step, n);
    const uint32_t pixel = j->colour ? j->form.pixel : 1;
    const uint32_t top = first_from(0, y_step, p->out_h);
    between_t *loop = between_of(j->kind, j->colour);
    for (uint32_t y = begin; y < end; y++, out += n * pixel) {
        uint32_t at = y < top ? 0 : y * y_step + (y_step >> 1) - 32768;
        at = at >> 16 >= h - 1 ? (h - 1) << 16 : at;
        const uint8_t *row0 = j->frame + (p->y + (at >> 16)) * j->stride;
        const uint8_t *row1 = at >> 16 == h - 1 ? row0 : row0 + j->stride;
        const uint32_t wy = at >> 11 & 31;
        edge(j, loop, row0, row1, p->x, wy, left, out);
        if (right > left) {
            loop(row0, row1, ((uint32_t)p->x << 16) + left * x_step + (x_step >> 1) - 32768, x_step, wy, right - left, &j->form,
                out + left * pixel);
        }
        edge(j, loop, row0, row1, p->x + w - 1, wy, n - right, out + right * pixel);
    }
}

#ifdef MICA_PICTURE_WORDS
// rest / of in units of 2^-32, rounded up: so much too large that sums of `of` of them are what they should be, rounded down.
static uint32_t fraction(uint32_t rest, uint32_t of) {
    uint32_t found = 0;
    for (uint32_t k = 0; k < 32; k++) {
        rest <<= 1;
        found <<= 1;
        if (rest >= of) {
            rest -= of;
            found++;
        }
    }
    return found + (rest != 0);
}

typedef void boxes_loop_t(const mica_picture_boxes_t *args);

// Loops of an instruction set that take boxes as they are, pixel after pixel; or null.
static boxes_loop_t *boxes_of(const job_t *j) {
    const bool forward = j->form.to[0] == 0 && j->form.pixel == 3;
    switch (j->kind) {
        case TRIPLES:
            return MICA_PICTURE_BOXES_TRIPLES;
        case WORDS:
            return MICA_PICTURE_BOXES_WORDS;
        case SWAPPED:
            return MICA_PICTURE_BOXES_SWAPPED;
        case CHROMA:
            return !forward || ((uintptr_t)j->frame & 3) ? NULL : j->form.first == 0 ? MICA_PICTURE_BOXES_YUYV : MICA_PICTURE_BOXES_UYVY;
        default:
            return NULL;
    }
}

// What they are given in every row.
static mica_picture_boxes_t boxes_args(const job_t *j, const boxes_t *b) {
    const form_t *f = &j->form;
    const bool blue_first = j->kind == TRIPLES && f->first != 0;
    const uint32_t first = blue_first ? 2 : 0, odd = j->kind == CHROMA ? b->x & 1 : 0;
    return (mica_picture_boxes_t) {
        .step = fraction(b->rest, b->of),
        .stride = b->stride,
        .what = j->kind == CHROMA ? odd : !j->colour ? 0 : f->to[first] == 0 ? 1 : 2,
        .narrow = b->nx,
        .wide = b->nx + (b->rest != 0),
        .tables = { f->tables[j->colour ? first : 0], f->tables[1], f->tables[2 - first] },
        .first = blue_first ? 29 : 77,
        .last = blue_first ? 77 : 29,
    };
}
#endif

static void area_rows(const job_t *j, uint32_t begin, uint32_t end, int8_t *out) {
    const mica_picture_t *p = j->p;
    const uint32_t w = p->w, h = p->h, pixel = j->colour ? j->form.pixel : 1;
    const uint32_t nx = w / p->out_w, rest = w % p->out_w, ny = h / p->out_h, rest_y = h % p->out_h;
    boxes_t b = { .nx = nx, .rest = rest, .of = p->out_w, .x = p->x, .end = p->x + w, .stride = j->stride };
    uint32_t reciprocals[2][2]; // of a box's rows and columns, each as few as there are and one more
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t across = nx + (k & 1), down = ny + (k >> 1);
        reciprocals[k >> 1][k & 1] = (1u << 24) / ((across == 0 ? 1 : across) * (down == 0 ? 1 : down));
    }
    const bool bytes = j->kind == TRIPLES || j->kind == CHROMA;
    b.most = bytes ? (2 * COLUMNS - 8) / (j->size * (nx + (rest != 0))) : (COLUMNS - 4) / (nx + (rest != 0));
    b.wider = b.most * rest / p->out_w;
    b.over = b.most * rest % p->out_w;
    means_t *fast = columns_of(j->kind);
    const uint32_t inside = j->kind == PAIRS ? j->form.first : 0; // of a word
    const bool words = b.nx != 0 && (uintptr_t)(j->frame - inside) % 4 == 0 && b.stride % 4 == 0;
    #ifdef MICA_PICTURE_WORDS
    boxes_loop_t *loop = nx < 2 || nx + (rest != 0) > 4 || ny > 4 || (j->colour && pixel != 3) ? NULL : boxes_of(j);
    const bool quarters = nx == 2 && rest == 0 && (j->kind == WORDS || j->kind == SWAPPED) && !j->colour
        && ((uintptr_t)j->frame | b.stride | b.x * 2) % 4 == 0;
    mica_picture_boxes_t args;
    if (loop != NULL) {
        args = boxes_args(j, &b);
    }
    #endif
    uint32_t first = begin * h / p->out_h, over = begin * h % p->out_h;
    for (uint32_t y = begin; y < end; y++, out += p->out_w * pixel) {
        over += rest_y;
        const uint32_t more = over >= p->out_h;
        over -= more ? p->out_h : 0;
        b.ny = ny + more;
        b.reciprocals = reciprocals[more];
        const uint8_t *row = j->frame + (p->y + first) * j->stride;
        first += b.ny;
        b.ny = b.ny == 0 ? 1 : b.ny;
        #ifdef MICA_PICTURE_WORDS
        if (quarters && b.ny == 2) {
            (j->kind == WORDS ? MICA_PICTURE_QUARTERS : MICA_PICTURE_QUARTERS_SWAPPED)(row + b.x * 2, b.stride, out, out + p->out_w, j->form.tables[0]);
            continue;
        }
        if (loop != NULL && b.ny <= 4) {
            args.out = out;
            args.out_end = out + p->out_w * pixel;
            args.back = 0 - (b.ny - 1) * b.stride;
            args.rows = b.ny;
            args.thin = b.reciprocals[0];
            args.thick = b.reciprocals[1];
            args.pixels = row + (j->kind == CHROMA ? b.x & ~1u : b.x) * j->size;
            loop(&args);
            continue;
        }
        #endif
        if (words && fast != NULL && (!packed(j->kind) || ny <= FIELDS_ROOM)) {
            fast(j->kind, j->colour, row - inside, &b, &j->form, out);
        } else {
            means(j->kind, j->colour, row, &b, &j->form, out);
        }
    }
}

void mica_picture_rows(const mica_picture_t *p, const uint8_t *frame, const int8_t *table, uint32_t begin, uint32_t end, int8_t *out) {
    const bool colour = p->flags & MICA_PICTURE_COLOUR, planes = p->flags & MICA_PICTURE_PLANES;
    job_t j = { .p = p, .frame = frame, .kind = kind_of(p, frame), .colour = colour };
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t channel = !colour ? 0 : p->flags & MICA_PICTURE_BGR ? 2 - k : k;
        j.form.tables[k] = table + 256 * channel;
        j.form.to[k] = planes ? channel * p->out_w * p->out_h : channel;
    }
    j.form.pixel = planes || !colour ? 1 : 3;
    j.size = pixel_bytes(j.kind);
    j.stride = j.size * p->width;
    switch (p->format) {
        case MICA_PICTURE_RGB565LE:
        case MICA_PICTURE_BGR888:
            j.form.first = p->format == MICA_PICTURE_BGR888 ? 2 : 1;
            j.form.second = 0;
            break;
        case MICA_PICTURE_RGB565BE:
        case MICA_PICTURE_RGB888:
            j.form.first = 0;
            j.form.second = p->format == MICA_PICTURE_RGB888 ? 2 : 1;
            break;
        default:
            j.form.first = p->format == MICA_PICTURE_UYVY ? 1 : 0;
            j.form.second = 1 - j.form.first;
    }
    if (j.kind == PAIRS) {
        j.frame += j.form.first;
    }
    if (p->flags & MICA_PICTURE_AREA) {
        area_rows(&j, begin, end, out);
    } else {
        bilinear_rows(&j, begin, end, out);
    }
}

// What the methods of picture.c and picture_area.c share: kinds of frames, and from sums of their pixels to bytes.
#ifndef MICA_PICTURE_PIXELS_H
#define MICA_PICTURE_PIXELS_H

#include "picture.h"

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

// The settings of a row. first, second: where the byte of a triple or half that is red, or the high one, and its
// opposite lie; of YUYV and UYVY the Y and the U.
typedef struct {
    uint32_t first, second;
    const int8_t *tables[3]; // for red (or grey), green, blue
    uint32_t to[3];          // where they are stored, from a pixel on
    uint32_t pixel;          // from there to the next pixel
} form_t;

// The colours of one pixel with 5 bits of fraction: red (grey, Y), green (U), blue (V); packed: a sum of FIELDS.
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

// A picture to make.
typedef struct {
    const mica_picture_t *p;
    const uint8_t *frame;
    kind_t kind;
    bool colour;
    uint32_t size, stride;
    form_t form;
} mica_picture_job_t;

// The means of boxes of a row: each of `ny` rows and nx columns, or nx + 1 where `rest` overflows `of`, or 1 for none.
typedef struct {
    uint32_t nx, rest, of, x, ny;
    uint32_t stride;       // bytes of a row of the frame
    uint32_t end;          // the column behind the last box
    const uint32_t *reciprocals;
    // Of boxes that go together, `columns`: how many; of what they are wider than nx, the whole columns and what is
    // left of one.
    uint32_t most, wider, over;
} boxes_t;

// Rows [begin, end) by the means of boxes.
void mica_picture_area_rows(const mica_picture_job_t *j, uint32_t begin, uint32_t end, int8_t *out);

// Sums of columns that are on the stack: of a box at least.
#define COLUMNS (196u)

// The means of a row of boxes (picture_means.c): of any kind, pixel by pixel; or columns first, four bytes at a time.
typedef void mica_picture_loop_t(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f,
    int8_t *out);
mica_picture_loop_t mica_picture_means, mica_picture_columns_single, mica_picture_columns_packed,
    mica_picture_columns_triples, mica_picture_columns_chroma;

#endif

// mica: the area method's loops: the means of a row of boxes. picture_area.c says which of them a picture takes.
#include "picture_pixels.h"

#include "mica_select.h" // of an instruction set: MICA_PICTURE_WORDS and the like, where it has loops of its own

// The column behind `n` boxes from x on, of which the first is `part` of a column wider: `most` of them, or all left.
INLINE uint32_t behind(const boxes_t *b, uint32_t x, uint32_t part, uint32_t n, bool last) {
    return last ? b->end : x + n * b->nx + b->wider + (part + b->over >= b->of);
}

// Any kind, pixel after pixel: what is not aligned, or taller than a word has room for, and three bytes.
void mica_picture_means(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f, int8_t *out) {
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

// Sums of rows that take `bytes` together, one for each column, of words of the frame: uint16 for what has a byte,
// FIELDS for 565. `down`: where the byte of a PAIR lies. Functions of their own, so that all of it has registers.
INLINE void sum_columns(kind_t kind, const uint8_t *p, uint32_t stride, uint32_t bytes, uint32_t down, uint32_t *to,
    const uint32_t *to_end) {
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
            : f->first == 0 ? MICA_PICTURE_PAIRS : MICA_PICTURE_PAIRS_HIGH)(row, b->stride, b->ny, to,
            kind == PAIRS ? to + n : to + 2 * n);
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
            .out = out, .over = *part, .rest = rest, .of = of, .thin = thin, .columns_of_one = narrow,
            .pixel = f->pixel, .wide = wide, .tables = { f->tables[0], f->tables[1], f->tables[2] },
            .to = { f->to[0], f->to[1], f->to[2] }, .out_end = out + n * (colour ? f->pixel : 1), .columns = columns,
        };
        *part = (!packed(kind) ? MICA_PICTURE_SINGLES : colour ? MICA_PICTURE_COLOUR_MEANS
            : MICA_PICTURE_GREY_MEANS)(&args);
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
INLINE void means_by_columns(kind_t kind, kind_t like, bool colour, const uint8_t *row, const boxes_t *b,
    const form_t *f, int8_t *out) {
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

// The same of frames whose colours have bytes of their own: sums of bytes, one uint16 each, from the first pixel's on,
// of CHROMA from its pair's. odd: that pixel's place in the pair.
INLINE void means_of_bytes(kind_t kind, bool colour, const half_t *sums, uint32_t odd, uint32_t n, uint32_t *part,
    const boxes_t *b, const form_t *f, int8_t *out) {
    #ifdef MICA_PICTURE_WORDS
    if (kind == TRIPLES && b->nx < MICA_PICTURE_MOST_TRIPLES) {
        static const uint8_t weights[3] = { 77, 150, 29 };
        mica_picture_means_t args = {
            .out = out, .over = *part, .rest = b->rest, .of = b->of, .thin = b->reciprocals[0],
            .columns_of_one = b->nx, .pixel = f->pixel, .wide = b->reciprocals[1],
            .out_end = out + n * (colour ? f->pixel : 1), .columns = sums,
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
INLINE void means_by_bytes(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f,
    int8_t *out) {
    const uint32_t size = pixel_bytes(kind), pair = kind == CHROMA ? 1 : 0;
    uint32_t columns[COLUMNS];
    uint32_t x = b->x, part = 0;
    if (b->most == 0) {
        mica_picture_means(kind, colour, row, b, f, out);
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

#define COLUMNS_OF(name, means) \
    void mica_picture_columns_##name(kind_t kind, bool colour, const uint8_t *row, const boxes_t *b, const form_t *f, \
        int8_t *out) { \
        (void)kind; \
        (void)colour; \
        means; \
    }
COLUMNS_OF(single, means_by_columns(kind, BYTES, false, row, b, f, out))
COLUMNS_OF(packed, means_by_columns(kind, WORDS, colour, row, b, f, out))
COLUMNS_OF(triples, means_by_bytes(TRIPLES, colour, row, b, f, out))
COLUMNS_OF(chroma, means_by_bytes(CHROMA, true, row, b, f, out))

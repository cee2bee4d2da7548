// mica: frames of cameras as pictures of networks. See picture.h; the arithmetic is SPEC.md's, "Pictures".
//
// Both methods give each colour of a pixel as whole steps of 1/32 of what the frame has, in one word or a few: 5 bits
// of fraction, for the weights of four neighbours that sum up to 32 leave room between the fields of a 565 word. What
// follows, conversion and quantisation, is the same for both. The loops are written once for each kind of frame, and
// inlined with it.

#include "picture_pixels.h"

#include <string.h>

// ---- Bilinear

// `n` pixels between two rows, from place `at` on, in 1/65536 of a pixel of the frame; each has one to its right.
INLINE void between(kind_t kind, bool colour, const uint8_t *row0, const uint8_t *row1, uint32_t at, uint32_t step,
    uint32_t wy, uint32_t n, const form_t *f, int8_t *out) {
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
            s = apart(kind, pixel_word(kind, p, f) * w00 + pixel_word(kind, p + size, f) * w01
                + pixel_word(kind, q, f) * w10
                    + pixel_word(kind, q + size, f) * w11);
        }
        store(kind, colour, s, f, out);
    }
}

typedef void between_t(const uint8_t *, const uint8_t *, uint32_t, uint32_t, uint32_t, uint32_t, const form_t *,
    int8_t *);

// ---- One function for each kind of frame

#define BETWEEN(name, kind, colour) \
    static void between_##name(const uint8_t *row0, const uint8_t *row1, uint32_t at, uint32_t step, uint32_t wy, \
        uint32_t n, \
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
    if (p->flags & MICA_PICTURE_COLOUR ? p->format == MICA_PICTURE_GREY
        : (p->flags & (MICA_PICTURE_BGR | MICA_PICTURE_PLANES)) != 0) {
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

// The pixels of a row that lie before the first column's middle or behind the last one's: that column's alone.
static void edge(const mica_picture_job_t *j, between_t *loop, const uint8_t *row0, const uint8_t *row1,
    uint32_t column, uint32_t wy, uint32_t n, int8_t *out) {
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

static void bilinear_rows(const mica_picture_job_t *j, uint32_t begin, uint32_t end, int8_t *out) {
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
            loop(row0, row1, ((uint32_t)p->x << 16) + left * x_step + (x_step >> 1) - 32768, x_step, wy, right - left,
                &j->form, out + left * pixel);
        }
        edge(j, loop, row0, row1, p->x + w - 1, wy, n - right, out + right * pixel);
    }
}

void mica_picture_rows(const mica_picture_t *p, const uint8_t *frame, const int8_t *table, uint32_t begin, uint32_t end,
    int8_t *out) {
    const bool colour = p->flags & MICA_PICTURE_COLOUR, planes = p->flags & MICA_PICTURE_PLANES;
    mica_picture_job_t j = { .p = p, .frame = frame, .kind = kind_of(p, frame), .colour = colour };
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
        mica_picture_area_rows(&j, begin, end, out);
    } else {
        bilinear_rows(&j, begin, end, out);
    }
}

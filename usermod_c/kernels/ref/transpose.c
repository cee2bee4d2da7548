// Permutation of the dimensions; contract in mica_kernels.h.
#include <string.h>

#include "mica_kernels.h"
#include "mica_port.h"
#ifndef MICA_WITHOUT_TRANSPOSE_S8

mica_status_t mica_transpose_s8_check(const mica_transpose_s8_t *p, const char **what) {
    uint32_t seen = 0;
    uint64_t elements = 1;
    *what = "perm is no permutation of the dimensions";
    if (p->rank > MICA_MAX_RANK) {
        return MICA_ERR_SHAPE;
    }
    for (uint32_t i = 0; i < p->rank; ++i) {
        if (p->perm[i] >= p->rank) {
            return MICA_ERR_SHAPE;
        }
        seen |= 1u << p->perm[i];
        elements *= p->y_dims[i];
        if (elements == 0 || elements > MICA_MAX_BYTES) {
            *what = "a dimension is 0, or the tensor too large";
            return MICA_ERR_SHAPE;
        }
    }
    return seen == (1u << p->rank) - 1 ? MICA_OK : MICA_ERR_SHAPE;
}

uint32_t mica_transpose_s8_rows(const mica_transpose_s8_t *p) {
    return p->rank ? p->y_dims[0] : 1;
}

typedef struct {
    uint32_t n, from, to;  // elements, and from one to the next in x and in y
} line_t;

// Three planes of n elements, a multiple of four, to n pixels: words of four elements of each plane become three words.
// They are on words, and their first byte is the lowest.
static void interleave(int8_t *y, const int8_t *x, uint32_t n, uint32_t plane) {
    const mica_word_t *a = (const mica_word_t *)(const void *)x, *b = a + plane / 4, *c = b + plane / 4;
    mica_word_t *to = (mica_word_t *)(void *)y;
    for (const mica_word_t *end = a + n / 4; a != end; to += 3) {
        const uint32_t r = *a++, g = *b++, v = *c++;
        to[0] = (r & 0xff) | (g & 0xff) << 8 | (v & 0xff) << 16 | r << 16 >> 24 << 24;
        to[1] = (g >> 8 & 0xff) | (v & 0xff00) | (r & 0xff0000) | g << 8 >> 24 << 24;
        to[2] = (v >> 16 & 0xff) | r >> 24 << 8 | g >> 24 << 16 | v >> 24 << 24;
    }
}

// `many` times a line, four elements a round.
static void copy_lines(int8_t *y, const int8_t *x, line_t many, line_t line) {
    for (; many.n; --many.n, y += many.to, x += many.from) {
        if (line.from == 1 && line.to == 1) {
            memcpy(y, x, line.n);
            continue;
        }
        const int8_t *from = x;
        int8_t *to = y;
        #define NEXT { \
            *to = *from; \
            from += line.from; \
            to += line.to; \
        }
        for (uint32_t n = line.n / 4; n; --n) {
            NEXT
            NEXT
            NEXT
            NEXT
        }
        for (uint32_t n = line.n & 3; n; --n) {
            NEXT
        }
        #undef NEXT
    }
}

void mica_transpose_s8_ref(const mica_transpose_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    if (p->rank == 0) {
        *p->y = *p->x;
        return;
    }
    // step[i]: from one element of x to the next along y's dimension i, which is as long as x's perm[i].
    uint32_t x_dims[MICA_MAX_RANK], step[MICA_MAX_RANK], index[MICA_MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < p->rank; ++i) {
        x_dims[p->perm[i]] = p->y_dims[i];
    }
    uint32_t row = 1;  // elements of one row of y
    for (uint32_t i = 0; i < p->rank; ++i) {
        step[i] = 1;
        for (uint32_t d = p->perm[i] + 1u; d < p->rank; ++d) {
            step[i] *= x_dims[d];
        }
        row *= i ? p->y_dims[i] : 1;
    }

    // The two last dimensions at once, along the longer one.
    const uint32_t last = p->rank - 1u;
    line_t i = { p->y_dims[last], step[last], 1 }, j = { 1, 0, 0 };
    index[0] = row_begin;
    if (last == 0) {
        i.n = row_end - row_begin;
    } else {
        j = (line_t) { last == 1 ? row_end - row_begin : p->y_dims[last - 1], step[last - 1], i.n };
    }
    const uint32_t block = i.n * j.n;
    const bool along = i.n >= j.n || (i.from == 1 && i.to == 1);
    const bool words = i.n == 3 && j.from == 1 && (i.from | j.n) % 4 == 0 && i.from;
    uint32_t at = row_begin * step[0];  // of the element of x under `index`, whose two last entries stay 0
    for (int8_t *y = p->y + (size_t)row_begin * row, *const end = p->y + (size_t)row_end * row; y != end; y += block) {
        if (words && (((uintptr_t)y | (uintptr_t)(p->x + at)) & 3) == 0) {
            interleave(y, p->x + at, j.n, i.from);
        } else {
            copy_lines(y, p->x + at, along ? j : i, along ? i : j);
        }
        for (uint32_t k = last; k-- > 1;) {
            at += step[k - 1];
            if (++index[k - 1] < p->y_dims[k - 1]) {
                break;
            }
            at -= step[k - 1] * p->y_dims[k - 1];
            index[k - 1] = 0;
        }
    }
}

#endif

// Matrix product with constant weights, four channels at a time, so that an element of x is loaded once for four uses.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "requant.h"
#include "shape.h"

// Sums of x[i] * w[i] for four rows of weights, as they are stored: 128 too large. At most 65535 * 128 * 255, which
// fits. By itself, so that all of it has registers; conv2d.c has the same loop over what it loads, which differs.
static __attribute__((noinline)) void dots(int32_t *acc, const int8_t *x, const uint8_t *w, uint32_t row, uint32_t k) {
    int32_t a = 0, b = 0, c = 0, d = 0;
    uint32_t row2 = 2 * row, row3 = 3 * row;
    const int8_t *end = x + (k & ~3u);
    #define STEP { \
        int32_t v = *x++, t = w[row3]; \
        d += v * t; \
        t = w[row2]; \
        c += v * t; \
        t = w[row]; \
        b += v * t; \
        t = *w++; \
        a += v * t; \
}
    while (x != end) {
        STEP
        STEP
        STEP
        STEP
    }
    for (end += k & 3; x != end;) {
        STEP
    }
    #undef STEP
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

// acc[0] and [1] + the sums of x[i] * the weights of two rows of codes.
static __attribute__((noinline)) void dots_codes(int32_t *acc, const int8_t *x, const int8_t *table, const uint8_t *w,
    uint32_t row, uint32_t k) {
    int32_t a = acc[0], b = acc[1];
    for (const int8_t *end = x + (k & ~3u); x != end; x += 4, w += 2) {
        uint32_t even = w[0], odd = w[1], even1 = w[row], odd1 = w[row + 1];
        a += x[0] * table[even & 15] + x[1] * table[odd & 15] + x[2] * table[even >> 4] + x[3] * table[odd >> 4];
        b += x[0] * table[even1 & 15] + x[1] * table[odd1 & 15] + x[2] * table[even1 >> 4] + x[3] * table[odd1 >> 4];
    }
    for (uint32_t i = 0; i < (k & 3); ++i) {
        a += x[i] * mica_coded(table, (const int8_t *)w, i);
        b += x[i] * mica_coded(table, (const int8_t *)w + row, i);
    }
    acc[0] = a;
    acc[1] = b;
}

// Rows of codes, two at a time; the last of an odd number twice.
static void codes(const mica_fully_connected_s8_t *p, uint32_t row_begin, uint32_t row_end) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k);
    const int8_t *x = p->x + (size_t)row_begin * k;
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t i = row_begin; i < row_end; ++i, x += k, y += n) {
        for (uint32_t o = 0; o < n; o += 2) {
            uint32_t other = o + 1 < n ? 1 : 0;
            int32_t acc[2] = { ch->bias[o], ch->bias[o + other] };
            dots_codes(acc, x, ch->table, (const uint8_t *)ch->weights + (size_t)o * row, other * row, k);
            for (uint32_t j = 0; j <= other; ++j) {
                y[o + j] = mica_requant_s8(acc[j], ch->mult[o + j], ch->shift[o + j], ch->y_zero, ch->act_min,
                    ch->act_max);
            }
        }
    }
}

void mica_fully_connected_s8_c32(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k);
    if (MICA_CODED(ch->layout)) {
        codes(p, row_begin, row_end);
        return;
    }
    if (ch->layout != MICA_LAYOUT_OFFSET_ROWS) {
        mica_fully_connected_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const int8_t *x = p->x + (size_t)row_begin * k;
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t i = row_begin; i < row_end; ++i, x += k) {
        uint32_t excess = 128 * (uint32_t)mica_sum(x, (int32_t)k), o = 0;
        const uint8_t *w = (const uint8_t *)ch->weights;
        for (; o + 4 <= n; o += 4, w += 4 * row) {
            int32_t acc[4];
            dots(acc, x, w, row, k);
            for (uint32_t j = 0; j < 4; ++j) {
                int32_t sum = (int32_t)((uint32_t)acc[j] + (uint32_t)ch->bias[o + j] - excess);
                *y++ = mica_requant_s8(sum, ch->mult[o + j], ch->shift[o + j], ch->y_zero, ch->act_min, ch->act_max);
            }
        }
        for (; o < n; ++o, w += row) {
            uint32_t acc = (uint32_t)ch->bias[o] - excess;
            for (uint32_t j = 0; j < k; ++j) {
                acc += (uint32_t)(x[j] * w[j]);
            }
            *y++ = mica_requant_s8((int32_t)acc, ch->mult[o], ch->shift[o], ch->y_zero, ch->act_min, ch->act_max);
        }
    }
}

#endif

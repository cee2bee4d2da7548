// Products of windows and weights, a block of channels at a time.
#include "x86.h"
#ifdef MICA_X86

#include <emmintrin.h>

#include "shape.h"

// Weights i to i + 15 of n, 0 beyond their end.
static inline __m128i weights(const int8_t *from, uint32_t i, uint32_t n, uint8_t flip) {
    if (i + 16 <= n) {
        return _mm_xor_si128(_mm_loadu_si128((const void *)(from + i)), _mm_set1_epi8((char)flip));
    }
    int8_t some[16] = { 0 };
    for (uint32_t j = 0; i + j < n; ++j) {
        some[j] = (int8_t)(from[i + j] ^ flip);
    }
    return _mm_loadu_si128((const void *)some);
}

// Four words of four rows, by word, of which n are there.
static inline void transpose(uint32_t *to, const __m128i *rows, uint32_t n) {
    const __m128i ab = _mm_unpacklo_epi32(rows[0], rows[1]), cd = _mm_unpacklo_epi32(rows[2], rows[3]);
    const __m128i ab2 = _mm_unpackhi_epi32(rows[0], rows[1]), cd2 = _mm_unpackhi_epi32(rows[2], rows[3]);
    const __m128i words[4] = {
        _mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd), _mm_unpacklo_epi64(ab2, cd2),
        _mm_unpackhi_epi64(ab2, cd2),
    };
    MICA_UNROLLED
    for (uint32_t i = 0; i < 4 && i < n; ++i) {
        _mm_storeu_si128((void *)(to + MICA_BLOCK * i), words[i]);
    }
}

// n weights of four rows, as words of two.
static void pack(uint32_t *to, const int8_t *const *rows, uint32_t n, uint8_t flip) {
    const uint32_t steps = (n + 1) / 2;
    for (uint32_t i = 0, s = 0; i < n; i += 16, s += 8) {
        __m128i low[4], high[4];
        MICA_UNROLLED
        for (uint32_t r = 0; r < 4; ++r) {
            const __m128i v = weights(rows[r], i, n, flip);
            low[r] = _mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
            high[r] = _mm_srai_epi16(_mm_unpackhi_epi8(v, v), 8);
        }
        transpose(to + MICA_BLOCK * s, low, steps - s);
        if (s + 4 < steps) {
            transpose(to + MICA_BLOCK * (s + 4), high, steps - s - 4);
        }
    }
}

// n weights of a block's rows.
static void pack_block(mica_x86_t choice, uint32_t *to, const int8_t *const *rows, uint32_t n, uint8_t flip) {
    if (choice == MICA_X86_VNNI) {
        mica_pack_vnni(to, rows, n, flip);
        return;
    }
    for (uint32_t at = 0; at < MICA_BLOCK; at += 4) {
        pack(to + at, rows + at, n, flip);
    }
}

// The constants of a block that is not whole.
typedef struct {
    int32_t bias[MICA_BLOCK], mult[MICA_BLOCK];
    int8_t shift[MICA_BLOCK];
} part_t;

// Channels of a block from `first` on; the last one stands for those that are missing.
static void begin(mica_block_t *b, part_t *part, const mica_channels_t *ch, uint32_t first, uint32_t out_c) {
    b->zero = ch->y_zero;
    b->low = ch->act_min;
    b->high = ch->act_max;
    b->channels = out_c - first < MICA_BLOCK ? out_c - first : MICA_BLOCK;
    for (uint32_t i = 0; i < MICA_BLOCK && b->channels != MICA_BLOCK; ++i) {
        const uint32_t c = first + (i < b->channels ? i : b->channels - 1);
        part->bias[i] = ch->bias[c];
        part->mult[i] = ch->mult[c];
        part->shift[i] = ch->shift[c];
    }
    const bool whole = b->channels == MICA_BLOCK;
    b->bias = whole ? ch->bias + first : part->bias;
    b->mult = whole ? ch->mult + first : part->mult;
    b->shift = whole ? ch->shift + first : part->shift;
}

// Where the weights of channel i of a block begin.
static const int8_t *weights_of(const mica_block_t *b, const mica_channels_t *ch, uint32_t first, uint32_t i,
    uint32_t row) {
    return ch->weights + (size_t)(first + (i < b->channels ? i : b->channels - 1)) * row;
}

static uint8_t flip(const mica_channels_t *ch) {
    return ch->layout == MICA_LAYOUT_OFFSET_ROWS ? 0x80 : 0;
}

void mica_gemm(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const mica_windows_t *x, uint32_t *packed,
    uint32_t pixels, int8_t *y) {
    const uint32_t row = mica_row_bytes(ch->layout, x->rows * x->columns * x->values);
    // Pieces that fill their words are one.
    const uint32_t together = x->values % 4 == 0 ? x->rows * x->columns : 1, pieces = x->rows * x->columns / together;
    mica_block_t b = { .x = x, .w = packed, .pixels = pixels, .pitch = out_c };
    for (uint32_t o = 0; o < out_c; o += MICA_BLOCK) {
        part_t part;
        begin(&b, &part, ch, o, out_c);
        const int8_t *rows[MICA_BLOCK];
        for (uint32_t i = 0; i < MICA_BLOCK; ++i) {
            rows[i] = weights_of(&b, ch, o, i, row);
        }
        for (uint32_t piece = 0; piece < pieces; ++piece) {
            pack_block(choice, packed + (size_t)piece * MICA_BLOCK * x->steps, rows, together * x->values, flip(ch));
            for (uint32_t i = 0; i < MICA_BLOCK; ++i) {
                rows[i] += x->values;
            }
        }
        b.y = y + o;
        (choice == MICA_X86_VNNI ? mica_block_vnni : mica_block_avx2)(&b);
    }
}

void mica_depthwise(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const mica_windows_t *x,
    uint32_t *packed, uint32_t pixels, int8_t *y) {
    const uint32_t taps = x->rows * x->columns, even = (taps + 1) & ~1u;
    uint32_t *tap = packed + MICA_BLOCK / 2 * even;
    for (uint32_t t = 0; t < even; ++t) {
        const uint32_t there = t < taps ? t : taps - 1;
        tap[t] = (uint32_t)(there / x->columns * x->piece_row + there % x->columns * x->piece_column);
    }
    mica_windows_t f = *x;
    mica_block_t b = { .x = &f, .w = packed, .tap = tap, .taps = even, .pixels = pixels, .pitch = out_c };
    for (uint32_t o = 0; o < out_c; o += MICA_BLOCK, f.x += MICA_BLOCK) {
        part_t part;
        begin(&b, &part, ch, o, out_c);
        for (uint32_t i = 0; i < MICA_BLOCK; ++i) {
            const int8_t *w = weights_of(&b, ch, o, i, taps);
            for (uint32_t t = 0; t < even; t += 2) {
                const uint16_t high = t + 1 < taps ? (uint16_t)w[t + 1] : 0;
                packed[MICA_BLOCK / 2 * t + i] = (uint16_t)w[t] | (uint32_t)high << 16;
            }
        }
        b.y = y + o;
        (choice == MICA_X86_VNNI ? mica_block_vnni : mica_block_avx2)(&b);
    }
}

void mica_dense(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const int8_t *x, uint32_t k, int8_t *y) {
    const uint32_t row = mica_row_bytes(ch->layout, k);
    mica_block_t b = { .pixels = 1 };
    for (uint32_t i = 0; i < k; ++i) {
        b.x_sum += x[i];
    }
    for (uint32_t o = 0; o < out_c; o += MICA_BLOCK) {
        part_t part;
        begin(&b, &part, ch, o, out_c);
        b.y = y + o;
        (choice == MICA_X86_VNNI ? mica_dense_vnni : mica_dense_avx2)(&b, x, ch->weights + (size_t)o * row, row, k,
            flip(ch) ^ 0x80);
    }
}

#endif

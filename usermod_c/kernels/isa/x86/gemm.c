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
        _mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd), _mm_unpacklo_epi64(ab2, cd2), _mm_unpackhi_epi64(ab2, cd2),
    };
    MICA_UNROLLED
    for (uint32_t i = 0; i < 4 && i < n; ++i) {
        _mm_storeu_si128((void *)(to + MICA_BLOCK * i), words[i]);
    }
}

// The weights of a piece, of four rows, as words.
static void pack(mica_x86_t choice, uint32_t *to, const int8_t *const *rows, const mica_windows_t *x, uint8_t flip) {
    for (uint32_t i = 0, s = 0; i < x->values; i += 16, s += 4) {
        const uint32_t n = x->values;
        __m128i v[4] = { weights(rows[0], i, n, flip), weights(rows[1], i, n, flip), weights(rows[2], i, n, flip), weights(rows[3], i, n, flip) };
        if (choice != MICA_X86_VNNI) {  // 16 bits each
            __m128i low[4];
            MICA_UNROLLED
            for (uint32_t r = 0; r < 4; ++r) {
                low[r] = _mm_srai_epi16(_mm_unpacklo_epi8(v[r], v[r]), 8);
                v[r] = _mm_srai_epi16(_mm_unpackhi_epi8(v[r], v[r]), 8);
            }
            transpose(to + MICA_BLOCK * s, low, x->steps - s);
            s += 4;
        }
        if (s < x->steps) {
            transpose(to + MICA_BLOCK * s, v, x->steps - s);
        }
    }
}

void mica_gemm(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const mica_windows_t *x, uint32_t *packed, uint32_t pixels, int8_t *y) {
    const uint32_t pieces = x->rows * x->columns, row = mica_row_bytes(ch->layout, pieces * x->values);
    mica_block_t b = {
        .x = x, .w = packed, .pixels = pixels, .pitch = out_c, .zero = ch->y_zero, .low = ch->act_min, .high = ch->act_max,
    };
    for (uint32_t o = 0; o < out_c; o += MICA_BLOCK) {
        b.channels = out_c - o < MICA_BLOCK ? out_c - o : MICA_BLOCK;
        for (uint32_t at = 0; at < MICA_BLOCK; at += 4) {
            const int8_t *rows[4];
            for (uint32_t i = at; i < at + 4; ++i) {  // the last row stands for those that are missing
                const uint32_t c = o + (i < b.channels ? i : b.channels - 1);
                rows[i - at] = ch->weights + (size_t)c * row;
                b.bias[i] = ch->bias[c];
                b.mult[i] = ch->mult[c];
                b.shift[i] = ch->shift[c] - 1;
            }
            for (uint32_t piece = 0; piece < pieces; ++piece) {
                pack(choice, packed + (size_t)piece * MICA_BLOCK * x->steps + at, rows, x, ch->layout == MICA_LAYOUT_OFFSET_ROWS ? 0x80 : 0);
                for (uint32_t r = 0; r < 4; ++r) {
                    rows[r] += x->values;
                }
            }
        }
        b.y = y + o;
        (choice == MICA_X86_VNNI ? mica_block_vnni : mica_block_avx2)(&b);
    }
}

#endif

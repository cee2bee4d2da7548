// Products of patches and weights, a block of channels at a time.
#include "host.h"
#ifdef MICA_HOST_X86

#include <emmintrin.h>
#include <string.h>

bool mica_shifts_down(const mica_channels_t *ch, uint32_t n) {
    int32_t least = 1;
    for (uint32_t o = 0; o < n; ++o) {
        least = ch->shift[o] < least ? ch->shift[o] : least;
    }
    return least >= 1;
}

void mica_ready(mica_host_t choice, void *to, const int8_t *x, size_t n) {
    (choice == MICA_HOST_VNNI ? mica_ready_vnni : mica_ready_avx2)(to, x, n);
}

// Weights i to i + 15 of n, 0 beyond their end.
static __m128i weights(const int8_t *from, uint32_t i, uint32_t n, uint8_t flip) {
    if (i + 16 <= n) {
        return _mm_xor_si128(_mm_loadu_si128((const void *)(from + i)), _mm_set1_epi8((char)flip));
    }
    int8_t some[16] = { 0 };
    for (uint32_t j = 0; i + j < n; ++j) {
        some[j] = (int8_t)(from[i + j] ^ flip);
    }
    return _mm_loadu_si128((const void *)some);
}

// Four words of four rows, by word; `n` words are still wanted.
static void transpose(uint32_t *to, __m128i a, __m128i b, __m128i c, __m128i d, uint32_t n) {
    const __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
    const __m128i ab2 = _mm_unpackhi_epi32(a, b), cd2 = _mm_unpackhi_epi32(c, d);
    const __m128i words[4] = {
        _mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd), _mm_unpacklo_epi64(ab2, cd2), _mm_unpackhi_epi64(ab2, cd2),
    };
    for (uint32_t i = 0; i < 4 && i < n; ++i) {
        _mm_storeu_si128((void *)(to + MICA_BLOCK * i), words[i]);
    }
}

// 16 bits each: the lower or the upper eight of 16 values.
static __m128i lower(__m128i v) {
    return _mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
}

static __m128i upper(__m128i v) {
    return _mm_srai_epi16(_mm_unpackhi_epi8(v, v), 8);
}

// The weights of a piece, of four rows, as words.
static void pack_four(mica_host_t choice, uint32_t *to, const int8_t *const *rows, const mica_windows_t *x, uint8_t flip) {
    for (uint32_t i = 0, s = 0; i < x->values; i += 16, s += 4) {
        const __m128i a = weights(rows[0], i, x->values, flip), b = weights(rows[1], i, x->values, flip);
        const __m128i c = weights(rows[2], i, x->values, flip), d = weights(rows[3], i, x->values, flip);
        if (choice == MICA_HOST_VNNI) {
            transpose(to + MICA_BLOCK * s, a, b, c, d, x->steps - s);
            continue;
        }
        transpose(to + MICA_BLOCK * s, lower(a), lower(b), lower(c), lower(d), x->steps - s);
        s += 4;
        if (s < x->steps) {
            transpose(to + MICA_BLOCK * s, upper(a), upper(b), upper(c), upper(d), x->steps - s);
        }
    }
}

// The weights of `n` channels from o.
static void pack(mica_host_t choice, const mica_gemm_t *g, const mica_windows_t *x, uint32_t o, uint32_t n) {
    for (uint32_t at = 0; at < MICA_BLOCK; at += 4) {
        const int8_t *rows[4];
        for (uint32_t r = 0; r < 4; ++r) {  // the last row stands for those that are missing
            rows[r] = g->ch->weights + (size_t)(o + (at + r < n ? at + r : n - 1)) * g->row;
        }
        uint32_t *to = g->packed + at;
        for (uint32_t piece = x->rows * x->columns; piece; --piece, to += (size_t)MICA_BLOCK * x->steps) {
            pack_four(choice, to, rows, x, g->flip);
            for (uint32_t r = 0; r < 4; ++r) {
                rows[r] += x->values;
            }
        }
    }
}

void mica_gemm(mica_host_t choice, const mica_gemm_t *g, const mica_windows_t *x, uint32_t pixels, int8_t *y) {
    const mica_channels_t *ch = g->ch;
    mica_block_t b = {
        .x = x, .w = g->packed, .pixels = pixels, .pitch = g->out_c, .zero = ch->y_zero, .low = ch->act_min, .high = ch->act_max,
    };
    for (uint32_t o = 0; o < g->out_c; o += MICA_BLOCK) {
        b.channels = g->out_c - o < MICA_BLOCK ? g->out_c - o : MICA_BLOCK;
        pack(choice, g, x, o, b.channels);
        for (uint32_t i = 0; i < b.channels; ++i) {
            b.bias[i] = ch->bias[o + i];
            b.mult[i] = ch->mult[o + i];
            b.shift[i] = ch->shift[o + i] - 1;
        }
        b.y = y + o;
        (choice == MICA_HOST_VNNI ? mica_block_vnni : mica_block_avx2)(&b);
    }
}

#endif

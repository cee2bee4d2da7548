// The inner loops with AVX2: products of 16 bits, added in pairs.
#include "host.h"
#ifdef MICA_HOST_X86

#include <immintrin.h>

#define PIXELS 6

// As mica_requant_s8 with shift + 1, not yet clamped: the products' bits 31 and up.
static inline MICA_AVX2 __m256i requant(__m256i acc, __m256i mult, __m256i shift) {
    const __m256i even = _mm256_mul_epi32(acc, mult);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(acc, 32), _mm256_srli_epi64(mult, 32));
    __m256i t = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);
    t = _mm256_srav_epi32(t, shift);
    return _mm256_srai_epi32(_mm256_add_epi32(t, _mm256_set1_epi32(1)), 1);
}

static inline MICA_AVX2 __m256i clamped(__m256i v, int32_t zero, int32_t low, int32_t high) {
    v = _mm256_add_epi32(v, _mm256_set1_epi32(zero));
    return _mm256_min_epi32(_mm256_max_epi32(v, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
}

static inline MICA_AVX2 __m256i load(const void *from) {
    return _mm256_loadu_si256(from);
}

static inline MICA_AVX2 __m256i less_one(const int8_t *shift) {
    return _mm256_sub_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)shift)), _mm256_set1_epi32(1));
}

// Eight values that fit a byte, in the lower half.
static inline MICA_AVX2 __m128i bytes(__m256i v) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return _mm_packs_epi16(words, words);
}

MICA_AVX2 void mica_out_avx2(const mica_channels_t *ch, uint32_t c, const int32_t *acc, int8_t *y) {
    const __m256i v = requant(load(acc), load(ch->mult + c), less_one(ch->shift + c));
    _mm_storel_epi64((void *)y, bytes(clamped(v, ch->y_zero, ch->act_min, ch->act_max)));
}

MICA_AVX2 void mica_block_avx2(const mica_block_t *b) {
    const mica_windows_t windows = *b->x;
    const __m256i bias0 = load(b->bias), bias1 = load(b->bias + 8);
    int8_t *y = b->y;
    const uint8_t *at = windows.x, *x[PIXELS];
    uint32_t column = 0;
    for (uint32_t left = b->pixels, n; left; left -= n) {
        n = left < PIXELS ? left : PIXELS;
        mica_next_pixels(&windows, &at, &column, x, n, PIXELS);
        __m256i a[PIXELS], c[PIXELS];
        MICA_UNROLLED
        for (uint32_t i = 0; i < PIXELS; ++i) {
            a[i] = bias0;
            c[i] = bias1;
        }
        const uint32_t *w = b->w;
        uint32_t piece = 0;  // of its row
        for (size_t pieces_left = windows.rows * windows.columns, row = 0, from = 0; pieces_left; --pieces_left) {
            for (size_t s = from; s != from + 4 * (size_t)windows.steps; s += 4, w += MICA_BLOCK) {
                const __m256i w0 = load(w), w1 = load(w + 8);
                MICA_UNROLLED
                for (uint32_t i = 0; i < PIXELS; ++i) {
                    const __m256i v = _mm256_set1_epi32(*(const mica_loose_t *)(x[i] + s));
                    a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(v, w0));
                    c[i] = _mm256_add_epi32(c[i], _mm256_madd_epi16(v, w1));
                }
            }
            from += windows.piece_column;
            if (++piece == windows.columns) {
                piece = 0;
                from = row += windows.piece_row;
            }
        }
        MICA_UNROLLED
        for (uint32_t i = 0; i < PIXELS; ++i) {
            if (i < n) {
                const __m256i v = clamped(requant(a[i], load(b->mult), load(b->shift)), b->zero, b->low, b->high);
                const __m256i u = clamped(requant(c[i], load(b->mult + 8), load(b->shift + 8)), b->zero, b->low, b->high);
                const __m128i all = _mm_unpacklo_epi64(bytes(v), bytes(u));
                if (b->channels == MICA_BLOCK) {
                    _mm_storeu_si128((void *)y, all);
                } else {
                    int8_t some[MICA_BLOCK];
                    _mm_storeu_si128((void *)some, all);
                    mica_copy(y, some, b->channels);
                }
                y += b->pitch;
            }
        }
    }
}

MICA_AVX2 void mica_ready_avx2(void *values, const int8_t *x, size_t n) {
    int16_t *to = values;
    for (; n >= 16; n -= 16, x += 16, to += 16) {
        _mm256_storeu_si256((void *)to, _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)x)));
    }
    for (; n; --n) {
        *to++ = *x++;
    }
}

static inline MICA_AVX2 __m256i wide(const int8_t *from, __m128i flip) {
    return _mm256_cvtepi8_epi16(_mm_xor_si128(_mm_loadu_si128((const void *)from), flip));
}

static inline MICA_AVX2 int32_t total(__m256i v) {
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}

MICA_AVX2 void mica_dots_avx2(int32_t *sum, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip) {
    const __m128i flips = _mm_set1_epi8((char)flip);
    __m256i a[4] = { _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256() };
    uint32_t i = 0;
    for (; i + 16 <= k; i += 16) {
        const __m256i v = wide(x + i, _mm_setzero_si128());
        MICA_UNROLLED
        for (uint32_t o = 0; o < 4; ++o) {
            a[o] = _mm256_add_epi32(a[o], _mm256_madd_epi16(v, wide(w + o * row + i, flips)));
        }
    }
    MICA_UNROLLED
    for (uint32_t o = 0; o < 4; ++o) {
        sum[o] = total(a[o]);
        for (uint32_t j = i; j < k; ++j) {
            sum[o] += x[j] * (int8_t)(w[o * row + j] ^ flip);
        }
    }
}

MICA_AVX2 void mica_taps_avx2(const mica_channels_t *ch, uint32_t channels, const int8_t *const *x, const int16_t *w, uint32_t taps, int8_t *y) {
    const int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    for (uint32_t left = channels; left; left -= left < 8 ? left : 8) {
        const uint32_t c = channels - (left < 8 ? 8 : left);  // the last eight may overlap those before them
        __m256i acc = load(ch->bias + c);
        for (uint32_t t = 0; t < taps; t += 2, w += 16) {
            const __m128i both = _mm_unpacklo_epi8(_mm_loadl_epi64((const void *)(x[t] + c)), _mm_loadl_epi64((const void *)(x[t + 1] + c)));
            acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_cvtepi8_epi16(both), load(w)));
        }
        acc = requant(acc, load(ch->mult + c), less_one(ch->shift + c));
        _mm_storel_epi64((void *)(y + c), bytes(clamped(acc, zero, low, high)));
    }
}

#endif

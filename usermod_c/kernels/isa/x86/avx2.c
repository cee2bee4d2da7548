// The inner loops with AVX2: products of 16 bits, added in pairs.
#include "x86.h"
#ifdef MICA_X86

#include <immintrin.h>

#define TARGET MICA_AVX2
#define PIXELS 6

typedef struct {
    __m256i low, high;
} sums_t;

static inline MICA_AVX2 __m256i load(const void *from) {
    return _mm256_loadu_si256(from);
}

// Eight results, as mica_requant_s8 makes them of sums; `less`: the shifts less 1. In both halves.
static inline MICA_AVX2 __m128i out(__m256i acc, __m256i mult, __m256i less, int32_t zero, int32_t low, int32_t high) {
    const __m256i even = _mm256_mul_epi32(acc, mult);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(acc, 32), _mm256_srli_epi64(mult, 32));
    __m256i v = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);  // bits 31 and up of the products
    v = _mm256_srai_epi32(_mm256_add_epi32(_mm256_srav_epi32(v, less), _mm256_set1_epi32(1)), 1);
    v = _mm256_max_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(zero)), _mm256_set1_epi32(low));
    v = _mm256_min_epi32(v, _mm256_set1_epi32(high));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return _mm_packs_epi16(words, words);
}

static inline MICA_AVX2 sums_t dot(sums_t sums, int32_t word, const uint32_t *w) {
    const __m256i x = _mm256_set1_epi32(word);
    sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(x, load(w)));
    sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(x, load(w + 8)));
    return sums;
}

static inline MICA_AVX2 void store(const mica_block_t *b, sums_t sums, int8_t *y) {
    const __m128i low = out(sums.low, load(b->mult), load(b->shift), b->zero, b->low, b->high);
    const __m128i high = out(sums.high, load(b->mult + 8), load(b->shift + 8), b->zero, b->low, b->high);
    int8_t some[MICA_BLOCK];
    const bool all = b->channels == MICA_BLOCK;
    _mm_storeu_si128((void *)(all ? y : some), _mm_unpacklo_epi64(low, high));
    for (uint32_t i = 0; i < b->channels && !all; ++i) {
        y[i] = some[i];
    }
}

#include "block.h"

MICA_AVX2 void mica_block_avx2(const mica_block_t *b) {
    const sums_t bias = { load(b->bias), load(b->bias + 8) };
    if (b->pixels == 1) {
        pixels(b, bias, 1);
    } else {
        pixels(b, bias, PIXELS);
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

// Eight values of 8 bits.
static inline MICA_AVX2 __m256i wide(const void *from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(from));
}

MICA_AVX2 void mica_taps_avx2(const mica_channels_t *ch, uint32_t channels, const mica_windows_t *x, const int32_t *w, uint32_t pixels, int8_t *y) {
    const mica_windows_t f = *x;
    const int32_t zero = ch->y_zero, low = ch->act_min, high = ch->act_max;
    for (uint32_t i = 0; i < pixels; ++i, y += channels) {
        const uint8_t *at = f.x + i / f.width * f.row_step + i % f.width * f.pixel_step;
        for (uint32_t left = channels; left; left -= left < 8 ? left : 8) {
            const uint32_t c = channels - (left < 8 ? 8 : left);  // the last eight may overlap those before them
            __m256i acc = load(ch->bias + c);
            const int32_t *weights = w + c;
            const uint8_t *row = at + c;
            for (uint32_t ky = f.rows; ky; --ky, row += f.piece_row) {
                const uint8_t *tap = row;
                for (uint32_t kx = f.columns; kx; --kx, tap += f.piece_column, weights += channels) {
                    acc = _mm256_add_epi32(acc, _mm256_mullo_epi32(wide(tap), load(weights)));
                }
            }
            const __m256i less = _mm256_sub_epi32(wide(ch->shift + c), _mm256_set1_epi32(1));
            _mm_storel_epi64((void *)(y + c), out(acc, load(ch->mult + c), less, zero, low, high));
        }
    }
}

#endif

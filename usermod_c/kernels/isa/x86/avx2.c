// The inner loops with AVX2: products of 16 bits, added in pairs.
#include "x86.h"
#ifdef MICA_X86

#include <immintrin.h>

#define TARGET MICA_AVX2
#define PIXELS 6
#define FEWER 2

typedef struct {
    __m256i low, high;
} sums_t;

static inline MICA_AVX2 __m256i load(const void *from) {
    return _mm256_loadu_si256(from);
}

typedef struct {
    __m256i mult[2], less[2], zero;  // less: shifts less 1
    __m128i low, high;
} scale_t;

static inline MICA_AVX2 scale_t scale_of(const mica_block_t *b) {
    const __m256i one = _mm256_set1_epi32(1);
    const __m128i shift = _mm_loadu_si128((const void *)b->shift);
    return (scale_t) {
        { load(b->mult), load(b->mult + 8) },
        { _mm256_sub_epi32(_mm256_cvtepi8_epi32(shift), one),
        _mm256_sub_epi32(_mm256_cvtepi8_epi32(_mm_srli_si128(shift, 8)), one) }, _mm256_set1_epi32(b->zero),
        _mm_set1_epi8((char)b->low), _mm_set1_epi8((char)b->high),
    };
}

// Eight results, as mica_requant_s8 makes them of sums before it clamps.
static inline MICA_AVX2 __m256i out(__m256i acc, __m256i mult, __m256i less, __m256i zero) {
    const __m256i even = _mm256_mul_epi32(acc, mult);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(acc, 32), _mm256_srli_epi64(mult, 32));
    // bits 31 and up
    const __m256i v = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);
    return _mm256_add_epi32(_mm256_srai_epi32(_mm256_add_epi32(_mm256_srav_epi32(v, less), _mm256_set1_epi32(1)), 1),
        zero);
}

static inline MICA_AVX2 sums_t dot(sums_t sums, int32_t word, const uint32_t *w) {
    const __m256i x = _mm256_set1_epi32(word);
    sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(x, load(w)));
    sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(x, load(w + 8)));
    return sums;
}

static inline MICA_AVX2 void store(const scale_t *s, sums_t sums, uint32_t channels, int8_t *y) {
    const __m256i low = out(sums.low, s->mult[0], s->less[0], s->zero),
        high = out(sums.high, s->mult[1], s->less[1], s->zero);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    bytes = _mm_min_epi8(_mm_max_epi8(bytes, s->low), s->high);
    if (channels == MICA_BLOCK) {
        _mm_storeu_si128((void *)y, bytes);
        return;
    }
    int8_t some[MICA_BLOCK];
    _mm_storeu_si128((void *)some, bytes);
    for (uint32_t i = 0; i < channels; ++i) {
        y[i] = some[i];
    }
}

// Two taps of 16 channels.
static inline MICA_AVX2 sums_t pair(sums_t sums, const uint8_t *one, const uint8_t *other, const uint32_t *w) {
    const __m128i a = _mm_loadu_si128((const void *)one), b = _mm_loadu_si128((const void *)other);
    sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)), load(w)));
    sums.high = _mm256_add_epi32(sums.high,
        _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)), load(w + 8)));
    return sums;
}

#include "block.h"

MICA_AVX2 void mica_block_avx2(const mica_block_t *b) {
    const sums_t bias = { load(b->bias), load(b->bias + 8) };
    block(b, bias);
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

// 16 values of 8 bits.
static inline MICA_AVX2 __m256i wide(const int8_t *from, int8_t flip) {
    return _mm256_cvtepi8_epi16(_mm_xor_si128(_mm_loadu_si128((const void *)from), _mm_set1_epi8(flip)));
}

MICA_AVX2 void mica_dense_avx2(const mica_block_t *b, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k,
    uint8_t flip) {
    int32_t sums[MICA_BLOCK];
    const int8_t plain = (int8_t)(flip ^ 0x80);
    const uint32_t whole = k & ~15u;
    for (uint32_t r = 0; r < MICA_BLOCK; r += 4) {
        __m256i sum[4] = { _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
            _mm256_setzero_si256() };
        const int8_t *rows[4];
        for (uint32_t j = 0; j < 4; ++j) {  // the last row stands for those that are missing
            rows[j] = w;
            w += r + j + 1 < b->channels ? row : 0;
        }
        for (uint32_t i = 0; i < whole; i += 16) {
            const __m256i v = wide(x + i, 0);
            MICA_UNROLLED
            for (uint32_t j = 0; j < 4; ++j) {
                sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(v, wide(rows[j] + i, plain)));
            }
        }
        const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]), _mm256_hadd_epi32(sum[2], sum[3]));
        const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        _mm_storeu_si128((void *)(sums + r), _mm_add_epi32(four, _mm_loadu_si128((const void *)(b->bias + r))));
        for (uint32_t j = 0; j < 4; ++j) {
            for (uint32_t i = whole; i < k; ++i) {
                sums[r + j] += x[i] * (int8_t)(rows[j][i] ^ plain);
            }
        }
    }
    const scale_t scale = scale_of(b);
    store(&scale, (sums_t) { load(sums), load(sums + 8) }, b->channels, b->y);
}

MICA_AVX2 void mica_sums_avx2(const mica_sum_t *s, const int8_t *a, const int8_t *b, int8_t *y, uint32_t n) {
    const __m256i mult_a = _mm256_set1_epi32(s->mult_a), mult_b = _mm256_set1_epi32(s->mult_b),
        offset = _mm256_set1_epi32(s->offset);
    const __m256i range = _mm256_set1_epi32((int32_t)s->range), low = _mm256_set1_epi32(s->low),
        zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128(s->shift);
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i v = _mm256_mullo_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(a + i))), mult_a);
        v = _mm256_add_epi32(v, _mm256_mullo_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(b + i))),
            mult_b));
        v = _mm256_sra_epi32(_mm256_add_epi32(v, offset), shift);
        v = _mm256_add_epi32(_mm256_min_epi32(_mm256_max_epi32(v, zero), range), low);
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        _mm_storel_epi64((void *)(y + i), _mm_packs_epi16(words, words));
    }
}

#endif

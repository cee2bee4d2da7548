// The inner loops with AVX-512 VNNI: four products of 8 bits at a time. One factor has no sign: it has 128 more, which
// the sums of the other take off again, modulo 2^32.
#include "x86.h"
#ifdef MICA_X86

#include <immintrin.h>

#define TARGET MICA_VNNI
#define PIXELS 8
#define FEWER 4

typedef __m512i sums_t;

static inline MICA_VNNI sums_t dot(sums_t sums, int32_t word, const uint32_t *w) {
    return _mm512_dpbusd_epi32(sums, _mm512_set1_epi32(word), _mm512_loadu_si512(w));
}

typedef struct {
    __m512i mult, odd, less, zero;  // odd: mult of the odd channels; less: shifts less 1
    __m128i low, high;
    __mmask16 there;
} scale_t;

static inline MICA_VNNI scale_t scale_of(const mica_block_t *b) {
    const __m512i mult = _mm512_loadu_si512(b->mult);
    return (scale_t) {
        mult, _mm512_srli_epi64(mult, 32),
        _mm512_sub_epi32(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)b->shift)), _mm512_set1_epi32(1)),
        _mm512_set1_epi32(b->zero),
        _mm_set1_epi8((char)b->low), _mm_set1_epi8((char)b->high), (__mmask16)((1u << b->channels) - 1),
    };
}

// As mica_requant_s8.
static inline MICA_VNNI void store(const scale_t *s, sums_t sums, uint32_t channels, int8_t *y) {
    (void)channels;
    const __m512i even = _mm512_mul_epi32(sums, s->mult), odd = _mm512_mul_epi32(_mm512_srli_epi64(sums, 32), s->odd);
    __m512i v = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    v = _mm512_srai_epi32(_mm512_add_epi32(_mm512_srav_epi32(v, s->less), _mm512_set1_epi32(1)), 1);
    v = _mm512_add_epi32(v, s->zero);
    _mm_mask_storeu_epi8(y, s->there, _mm_min_epi8(_mm_max_epi8(_mm512_cvtsepi32_epi8(v), s->low), s->high));
}

// Two taps of 16 channels.
static inline MICA_VNNI sums_t pair(sums_t sums, const uint8_t *one, const uint8_t *other, const uint32_t *w) {
    const __m128i a = _mm_loadu_si128((const void *)one), b = _mm_loadu_si128((const void *)other);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(a, b)),
        _mm_unpackhi_epi8(a, b), 1);
    return _mm512_dpwssd_epi32(sums, _mm512_cvtepi8_epi16(both), _mm512_loadu_si512(w));
}

#include "block.h"

MICA_VNNI void mica_block_vnni(const mica_block_t *b) {
    __m512i sum = _mm512_setzero_si512();
    const size_t words = b->taps ? 0 : (size_t)b->x->rows * b->x->columns * b->x->steps;
    for (size_t s = 0; s < words; ++s) {
        sum = dot(sum, 0x01010101, b->w + MICA_BLOCK * s);
    }
    const __m512i bias = _mm512_sub_epi32(_mm512_loadu_si512(b->bias), _mm512_slli_epi32(sum, 7));
    block(b, bias);
}

// Four vectors: the sums of each one's four quarters, in order in each quarter.
static inline MICA_VNNI __m512i quarters(const __m512i *v) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

// The even quarters of both and the odd ones, added.
static inline MICA_VNNI __m512i halves(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

MICA_VNNI void mica_dense_vnni(const mica_block_t *b, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k,
    uint8_t flip) {
    const __m512i to = _mm512_set1_epi8((char)flip), none = _mm512_setzero_si512();
    const uint32_t whole = k & ~63u, rest = k - whole;
    const __mmask64 there = (1ull << rest) - 1;
    __m512i all[4];
    MICA_UNROLLED
    for (uint32_t r = 0; r < MICA_BLOCK; r += 4) {
        __m512i sum[4] = { none, none, none, none };
        const int8_t *rows[4];
        MICA_UNROLLED
        for (uint32_t j = 0; j < 4; ++j) {  // the last row stands for those that are missing
            rows[j] = w;
            w += r + j + 1 < b->channels ? row : 0;
        }
        for (uint32_t i = 0; i < whole; i += 64) {
            const __m512i v = _mm512_loadu_si512(x + i);
            MICA_UNROLLED
            for (uint32_t j = 0; j < 4; ++j) {
                sum[j] = _mm512_dpbusd_epi32(sum[j], _mm512_xor_si512(_mm512_loadu_si512(rows[j] + i), to), v);
            }
        }
        for (uint32_t j = 0; j < 4 && rest; ++j) {
            const __m512i last = _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, rows[j] + whole), to);
            sum[j] = _mm512_dpbusd_epi32(sum[j], last, _mm512_maskz_loadu_epi8(there, x + whole));
        }
        all[r / 4] = quarters(sum);
    }
    const __m512i products = halves(halves(all[0], all[1]), halves(all[2], all[3]));
    const __m512i bias = _mm512_sub_epi32(_mm512_loadu_si512(b->bias), _mm512_set1_epi32(b->x_sum * 128));
    const scale_t scale = scale_of(b);
    store(&scale, _mm512_add_epi32(products, bias), b->channels, b->y);
}

// Up to 16 weights of the rows r, r + 4, r + 8 and r + 12.
static inline MICA_VNNI __m512i four_rows(const int8_t *const *rows, size_t at, __mmask16 there, uint8_t flip) {
    __m128i v[4];
    MICA_UNROLLED
    for (uint32_t i = 0; i < 4; ++i) {
        v[i] = _mm_maskz_loadu_epi8(there, rows[4 * i] + at);
        v[i] = flip ? _mm_maskz_mov_epi8(there, _mm_xor_si128(v[i], _mm_set1_epi8((char)flip))) : v[i];
    }
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(v[0]), v[1], 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low),
        _mm256_inserti128_si256(_mm256_castsi128_si256(v[2]), v[3], 1), 1);
}

MICA_VNNI void mica_pack_vnni(uint32_t *to, const int8_t *const *rows, uint32_t n, uint8_t flip) {
    for (uint32_t i = 0; i < n; i += 16) {
        const uint32_t left = n - i;
        const __mmask16 there = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
        __m512i v[4];
        MICA_UNROLLED
        for (uint32_t r = 0; r < 4; ++r) {
            v[r] = four_rows(rows + r, i, there, flip);
        }
        const __m512i ab = _mm512_unpacklo_epi32(v[0], v[1]), cd = _mm512_unpacklo_epi32(v[2], v[3]);
        const __m512i ab2 = _mm512_unpackhi_epi32(v[0], v[1]), cd2 = _mm512_unpackhi_epi32(v[2], v[3]);
        const __m512i words[4] = {
            _mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd), _mm512_unpacklo_epi64(ab2, cd2),
            _mm512_unpackhi_epi64(ab2, cd2),
        };
        MICA_UNROLLED
        for (uint32_t s = 0; s < 4; ++s) {
            if (4 * s < left) {
                _mm512_storeu_si512(to, words[s]);
                to += MICA_BLOCK;
            }
        }
    }
}

MICA_VNNI void mica_ready_vnni(void *to, const int8_t *x, size_t n) {
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 there = n - i >= 64 ? ~0ull : (1ull << (n - i)) - 1;
        const __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, x + i), _mm512_set1_epi8(-128));
        _mm512_mask_storeu_epi8((int8_t *)to + i, there, v);
    }
}

#endif

// The inner loops with AVX-512 VNNI: four products of 8 bits at a time. One factor has no sign: it has 128 more, which the sums of the
// other take off again, modulo 2^32.
#include "x86.h"
#ifdef MICA_X86

#include <immintrin.h>

#define TARGET MICA_VNNI
#define PIXELS 8

typedef __m512i sums_t;

static inline MICA_VNNI sums_t dot(sums_t sums, int32_t word, const uint32_t *w) {
    return _mm512_dpbusd_epi32(sums, _mm512_set1_epi32(word), _mm512_loadu_si512(w));
}

// As mica_requant_s8.
static inline MICA_VNNI void store(const mica_block_t *b, sums_t sums, int8_t *y) {
    const __m512i mult = _mm512_loadu_si512(b->mult), even = _mm512_mul_epi32(sums, mult);
    const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(sums, 32), _mm512_srli_epi64(mult, 32));
    __m512i v = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    v = _mm512_add_epi32(_mm512_srav_epi32(v, _mm512_loadu_si512(b->shift)), _mm512_set1_epi32(1));
    v = _mm512_add_epi32(_mm512_srai_epi32(v, 1), _mm512_set1_epi32(b->zero));
    v = _mm512_min_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(b->low)), _mm512_set1_epi32(b->high));
    _mm_mask_storeu_epi8(y, (__mmask16)((1u << b->channels) - 1), _mm512_cvtepi32_epi8(v));
}

#include "block.h"

MICA_VNNI void mica_block_vnni(const mica_block_t *b) {
    __m512i sum = _mm512_setzero_si512();
    const size_t words = (size_t)b->x->rows * b->x->columns * b->x->steps;
    for (size_t s = 0; s < words; ++s) {
        sum = dot(sum, 0x01010101, b->w + MICA_BLOCK * s);
    }
    const __m512i bias = _mm512_sub_epi32(_mm512_loadu_si512(b->bias), _mm512_slli_epi32(sum, 7));
    if (b->pixels == 1) {
        pixels(b, bias, 1);
    } else {
        pixels(b, bias, PIXELS);
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

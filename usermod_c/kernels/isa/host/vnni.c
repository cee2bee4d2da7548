// The inner loops with AVX-512 VNNI: four products of 8 bits at a time. One factor has no sign: it has 128 more, which the sums of the
// other take off again, modulo 2^32.
#include "host.h"
#ifdef MICA_HOST_X86

#include <immintrin.h>

#define PIXELS 8

static inline MICA_VNNI __m512i load(const void *from) {
    return _mm512_loadu_si512(from);
}

// As mica_requant_s8 with shift + 1: the products' bits 31 and up, rounded.
static inline MICA_VNNI __m512i requant(__m512i acc, __m512i mult, __m512i odd_mult, __m512i shift) {
    const __m512i even = _mm512_mul_epi32(acc, mult), odd = _mm512_mul_epi32(_mm512_srli_epi64(acc, 32), odd_mult);
    __m512i t = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    t = _mm512_srav_epi32(t, shift);
    return _mm512_srai_epi32(_mm512_add_epi32(t, _mm512_set1_epi32(1)), 1);
}

MICA_VNNI void mica_block_vnni(const mica_block_t *b) {
    const mica_windows_t windows = *b->x;
    const uint32_t pieces = windows.rows * windows.columns;
    const __m512i mult = load(b->mult), odd_mult = _mm512_srli_epi64(mult, 32), shift = load(b->shift);
    const __m512i zero = _mm512_set1_epi32(b->zero), low = _mm512_set1_epi32(b->low), high = _mm512_set1_epi32(b->high);
    const __mmask16 there = (__mmask16)((1u << b->channels) - 1);
    __m512i sum = _mm512_setzero_si512();
    for (size_t s = 0; s < (size_t)pieces * windows.steps; ++s) {
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), load(b->w + MICA_BLOCK * s));
    }
    const __m512i bias = _mm512_sub_epi32(load(b->bias), _mm512_slli_epi32(sum, 7));
    int8_t *y = b->y;
    const uint8_t *at = windows.x, *x[PIXELS];
    uint32_t column = 0;
    for (uint32_t left = b->pixels, n; left; left -= n) {
        n = left < PIXELS ? left : PIXELS;
        mica_next_pixels(&windows, &at, &column, x, n, PIXELS);
        __m512i a[PIXELS];
        MICA_UNROLLED
        for (uint32_t i = 0; i < PIXELS; ++i) {
            a[i] = bias;
        }
        const uint32_t *w = b->w;
        uint32_t piece = 0;  // of its row
        for (size_t pieces_left = pieces, row = 0, from = 0; pieces_left; --pieces_left) {
            for (size_t s = from; s != from + 4 * (size_t)windows.steps; s += 4, w += MICA_BLOCK) {
                const __m512i v = load(w);
                MICA_UNROLLED
                for (uint32_t i = 0; i < PIXELS; ++i) {
                    a[i] = _mm512_dpbusd_epi32(a[i], _mm512_set1_epi32(*(const mica_loose_t *)(x[i] + s)), v);
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
                const __m512i v = _mm512_add_epi32(requant(a[i], mult, odd_mult, shift), zero);
                const __m512i in = _mm512_min_epi32(_mm512_max_epi32(v, low), high);
                _mm_mask_storeu_epi8(y, there, _mm512_cvtepi32_epi8(in));
                y += b->pitch;
            }
        }
    }
}

// The first n of 64 bytes.
static inline MICA_VNNI __mmask64 first(size_t n) {
    return n >= 64 ? ~0ull : (1ull << n) - 1;
}

MICA_VNNI void mica_ready_vnni(void *to, const int8_t *x, size_t n) {
    for (size_t i = 0; i < n; i += 64) {
        const __m512i v = _mm512_maskz_loadu_epi8(first(n - i), x + i);
        _mm512_mask_storeu_epi8((int8_t *)to + i, first(n - i), _mm512_xor_si512(v, _mm512_set1_epi8(-128)));
    }
}

MICA_VNNI void mica_dots_vnni(int32_t *sum, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip) {
    const __m512i flips = _mm512_set1_epi8((char)(flip ^ 0x80)), none = _mm512_setzero_si512();
    __m512i a[4] = { none, none, none, none }, all = none;
    for (uint32_t i = 0; i < k; i += 64) {
        const __mmask64 there = first(k - i);
        const __m512i v = _mm512_maskz_loadu_epi8(there, x + i);  // 0 beyond the end, whatever the weights are there
        all = _mm512_dpbusd_epi32(all, _mm512_set1_epi8(-128), v);
        MICA_UNROLLED
        for (uint32_t o = 0; o < 4; ++o) {
            const __m512i t = _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, w + o * row + i), flips);
            a[o] = _mm512_dpbusd_epi32(a[o], t, v);
        }
    }
    MICA_UNROLLED
    for (uint32_t o = 0; o < 4; ++o) {
        sum[o] = _mm512_reduce_add_epi32(_mm512_sub_epi32(a[o], all));
    }
}

#endif

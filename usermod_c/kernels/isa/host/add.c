// Sum or difference of two tensors with AVX2, eight elements at a time. Where an input repeats along the innermost dimension c32's kernel
// runs.
#include "host.h"
#if defined(MICA_HOST_X86) && !defined(MICA_WITHOUT_ADD_S8)

#include <immintrin.h>
#include <string.h>

#include "broadcast.h"

static inline MICA_AVX2 void eight(const mica_add_s8_t *p, const int8_t *a, const int8_t *b, int8_t *y) {
    const __m256i s = _mm256_mullo_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)a)), _mm256_set1_epi32(p->mult_a));
    const __m256i t = _mm256_mullo_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)b)), _mm256_set1_epi32(p->mult_b));
    __m256i v = _mm256_add_epi32(_mm256_add_epi32(s, t), _mm256_set1_epi32(p->offset));
    v = _mm256_max_epi32(_mm256_sra_epi32(v, _mm_cvtsi32_si128(p->shift)), _mm256_set1_epi32(p->act_min - p->y_zero));
    v = _mm256_add_epi32(_mm256_min_epi32(v, _mm256_set1_epi32(p->act_max - p->y_zero)), _mm256_set1_epi32(p->y_zero));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((void *)y, _mm_packs_epi16(words, words));
}

static MICA_AVX2 void sums(const mica_add_s8_t *args, const int8_t *a, const int8_t *b, int8_t *y, uint32_t n) {
    const mica_add_s8_t p = *args;  // which y cannot be
    for (; n >= 8; n -= 8, a += 8, b += 8, y += 8) {
        eight(&p, a, b, y);
    }
    int8_t some[3][8] = { { 0 } };
    memcpy(some[0], a, n);
    memcpy(some[1], b, n);
    eight(&p, some[0], some[1], some[2]);
    memcpy(y, some[2], n);
}

void mica_add_s8_host(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    if (mica_host_choice() == MICA_HOST_VECTOR || !mica_broadcast_a_step(&p->shape) || !mica_broadcast_b_step(&p->shape)) {
        mica_add_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    for (uint32_t at = row_begin, n; at < row_end; at += n) {
        uint32_t a_at, b_at;
        n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        sums(p, p->a + a_at, p->b + b_at, p->y + at, n);
    }
}

#endif

// Sum or difference of two tensors, element by element; c32's kernel runs where one is spread, and without AVX2.
#include "x86.h"
#if defined(MICA_X86) && !defined(MICA_WITHOUT_ADD_S8)

#include "broadcast.h"

void mica_add_s8_x86(const mica_add_s8_t *p, MICA_KERNEL_ARGS) {
    mica_sum_t s;
    const bool spread = !mica_broadcast_a_step(&p->shape) || !mica_broadcast_b_step(&p->shape);
    if (mica_x86_choice() == MICA_X86_VECTOR || spread || !mica_fold_sum(p, &s)) {
        mica_add_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    for (uint32_t at = row_begin, n; at < row_end; at += n) {
        uint32_t a_at, b_at;
        n = mica_broadcast_run(&p->shape, at, row_end, &a_at, &b_at);
        const uint32_t whole = n & ~7u;
        mica_sums_avx2(&s, p->a + a_at, p->b + b_at, p->y + at, whole);
        for (uint32_t i = whole; i < n; ++i) {
            p->y[at + i] = mica_plus(&s, p->a[a_at + i], p->b[b_at + i]);
        }
    }
}

#endif

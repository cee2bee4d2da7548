// Sound to features on a Cortex-M0+: spectrum.S has the loops. What they are not made for, such as silence, goes the
// way of the reference.
#include "../c32/sound.h"
#include "kernels.h"
#include "log_mel.h"
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8) || !defined(MICA_WITHOUT_AXES_S8)

#define LEAST (1u << 15)  // bounds begin there: nothing asks whether numbers are smaller

// What the reference does with products that have less than 16 bits.
static uint32_t raised(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t *exponent, uint32_t used) {
    const int16_t *x = p->x + begin;
    uint32_t bits = 0, up = 15;
    if (p->frame & 3 || (uintptr_t)x & 3) {
        bits = mica_log_mel_sample_bits_from(p, begin, 0);
    } else {
        bits = mica_armv6m_loudest(x, x + p->frame);
        bits = (bits >> 17) | (bits & 0xffff) >> 1;
    }
    for (; bits; bits >>= 1) {
        --up;
    }
    mica_armv6m_raise(z, z + p->fft, up);
    *exponent = -(int32_t)up - 15;
    return used << up;
}

static uint32_t take(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t *exponent) {
    const uint32_t n = p->frame & ~7u, half = p->fft / 2u;
    const int32_t minus_bytes = -(int32_t)(2 * n);
    const int16_t *x = p->x + begin, *end = x + n, *window_end = p->window + n;
    if (n == 0) {
        return mica_log_mel_loops.take(p, begin, z, exponent);
    }
    if (!p->preemphasis) {
        const uint32_t used = mica_armv6m_take(end, window_end, z, minus_bytes, half)
            | mica_log_mel_take_from(p, begin, z, 0, n / 2);
        *exponent = -15;
        return used >> 15 ? used : raised(p, begin, z, exponent, used);
    }
    uint32_t bits = 0;
    if (p->preemphasis < 1 << 15) {
        bits = mica_armv6m_steep(end, p->preemphasis, z, minus_bytes, half, x[begin ? -1 : 0])
            | mica_log_mel_sample_bits_from(p, begin, n);
    }
    if (bits >> 15 == 0) {
        return mica_log_mel_loops.take(p, begin, z, exponent);
    }
    int32_t s = 1;
    for (bits >>= 16; bits; bits >>= 1) {
        ++s;
    }
    *exponent = s - 30;
    return mica_armv6m_window(s, window_end, z, minus_bytes, half) | mica_log_mel_take_from(p, begin, z, s, n / 2);
}

static uint32_t first(int32_t *z, uint32_t half, int32_t s) {
    return mica_armv6m_first(z, z + 2 * half, (uint32_t)s, LEAST) - 1;
}

// The one block of butterflies h apart from z on. Returns the bound.
static uint32_t one_block(const int16_t *twiddles, int32_t *z, uint32_t h, uint32_t step, uint32_t s, uint32_t bound) {
    const mica_block_t args = {
        .q = z + 2 * h,
        .twiddles = twiddles,
        .bound = bound,
        .step = step,
        .back = -(int32_t)(4 * h),
        .end = z + 3 * h,
        .shift = s,
    };
    return mica_armv6m_block(&args);
}

static uint32_t stage(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    const uint32_t step = 4 * (half / h);
    if (h == half / 2 && (s == 2 || s == 3)) {
        return one_block(twiddles, z, h, step, (uint32_t)s, LEAST) - 1;
    }
    if (h == half / 4 && (s == 2 || s == 3)) {
        return one_block(twiddles, z + half, h, step, (uint32_t)s, one_block(twiddles, z, h, step, (uint32_t)s, LEAST))
            - 1;
    }
    const mica_stage_t args = {
        .q = z + 2 * h,
        .twiddles = twiddles,
        .step = step,
        .bound = LEAST,
        .end = z + 2 * half + 2 * h,
        .shift = (uint32_t)s,
        .apart = (int32_t)(8 * h),
    };
    return mica_armv6m_stage(&args) - 1;
}

static uint32_t split(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s) {
    return mica_armv6m_split(z, half, twiddles, (uint32_t)s, LEAST) - 1;
}

static void squares(int32_t *z, uint32_t k, uint32_t end, int32_t s) {
    mica_armv6m_squares(z + 2 * k, (uint32_t *)z + k, (uint32_t *)z + end, (uint32_t)s);
}

static void roots(uint32_t *v, uint32_t n, const uint32_t *table) {
    mica_armv6m_roots(v, v + n, table);
}

static uint64_t band(const uint32_t *bins, const uint16_t *gains, uint32_t n) {
    return n ? mica_armv6m_band(bins, gains, n) : 0;
}

static int32_t dct(const int32_t *log, const int16_t *table, uint32_t n) {
    return n & 1 || (uintptr_t)table & 3 ? mica_log_mel_loops.dct(log, table, n) : mica_armv6m_dct(log, table, n);
}

static const mica_log_mel_loops_t loops =
    {take, first, stage, split, squares, roots, band, dct, mica_log_mel_rounded, NULL};

#ifndef MICA_WITHOUT_LOG_MEL_S8
void mica_log_mel_s8_armv6m(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    if (p->flags & MICA_LOG_MEL_CIRCLE && !((uintptr_t)p->twiddles & 3)) {
        mica_log_mel_s8_with(p, &loops, scratch, row_begin, row_end);
    } else {  // another's table; it is slow, but is computed
        mica_log_mel_s8_with(p, &mica_log_mel_loops, scratch, row_begin, row_end);
    }
}
#endif

#ifndef MICA_WITHOUT_PCEN_S8
void mica_pcen_s8_armv6m(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    const bool circle = p->sound.flags & MICA_LOG_MEL_CIRCLE && !((uintptr_t)p->sound.twiddles & 3);
    if (row_begin < row_end) {
        mica_pcen_s8_with(p, circle ? &loops : &mica_log_mel_loops, scratch);
    }
}
#endif

#ifndef MICA_WITHOUT_AXES_S8
void mica_axes_s8_armv6m(const mica_axes_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    const bool circle = p->flags & MICA_AXES_CIRCLE && !((uintptr_t)p->tables & 3);
    mica_axes_s8_with(p, circle ? &loops : &mica_log_mel_loops, scratch, row_begin, row_end);
}
#endif

#endif

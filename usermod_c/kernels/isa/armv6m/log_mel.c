// Sound to features on a Cortex-M0+: spectrum.S has the loops. What they are not made for, such as silence, goes the way of the reference.
#include "kernels.h"
#ifndef MICA_WITHOUT_LOG_MEL_S8

#include "log_mel.h"

#define LEAST (1u << 15)  // bounds begin there: nothing asks whether numbers are smaller
#define FAST (1 << 29)

static int32_t before(const mica_log_mel_s8_t *p, uint32_t begin) {
    return p->x[begin ? begin - 1 : 0];
}

static uint32_t sample_bits(const mica_log_mel_s8_t *p, uint32_t begin) {
    const uint32_t n = p->frame & ~1u;
    if (n == 0 || n != p->frame) {
        return mica_log_mel_loops.sample_bits(p, begin);
    }
    const uint32_t used = mica_armv6m_sample_bits(p->x + begin + n, -(int32_t)(2 * n), p->preemphasis, before(p, begin));
    return p->preemphasis ? used : used >> 15;
}

static uint32_t take(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s) {
    const uint32_t n = p->frame & ~3u, half = p->fft / 2u;
    if (n == 0 || (p->preemphasis && s == 0)) {
        return mica_log_mel_loops.take(p, begin, z, s);
    }
    const mica_take_t args = {
        .x_end = p->x + begin + n,
        .window_end = p->window + n,
        .z = z,
        .minus_bytes = -(int32_t)(2 * n),
        .place = 2 * half,
        .shift = p->preemphasis ? s - 1 : -s,
        .preemphasis = p->preemphasis,
        .before = before(p, begin),
    };
    const uint32_t used = mica_armv6m_take(&args);
    return used | mica_log_mel_take_from(p, begin, z, s, n / 2);
}

static uint32_t first(int32_t *z, uint32_t half, int32_t s) {
    return s ? mica_armv6m_first(z, z + 2 * half, (uint32_t)s, LEAST) - 1 : mica_log_mel_loops.first(z, half, s);
}

static uint32_t stage(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    if (s > 4 || (uintptr_t)twiddles & 3) {
        return mica_log_mel_loops.stage(twiddles, z, half, h, s);
    }
    const int32_t apart = (int32_t)(8 * h);
    const uint32_t blocks = half / (2 * h);
    mica_stage_t args = {
        .q = z + 2 * h,
        .twiddles = twiddles,
        .step = 8 * blocks,
        .factors = h,
        .to_p = -apart - 8,
        .to_q = apart - 8,
        .bound = LEAST,
        .shift = (uint32_t)s,
        .one_block = blocks <= 2,
    };
    if (!args.one_block) {
        args.end = z + 2 * half + 2 * h;
        return mica_armv6m_stage(&args) - 1;
    }
    for (uint32_t b = 0; b < blocks; ++b) {
        args.q = z + 4 * h * b + 2 * h;
        args.end = args.q + 2 * h;
        args.bound = mica_armv6m_stage(&args);
    }
    return args.bound - 1;
}

static uint32_t split(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s) {
    if (s == 0 || (uintptr_t)twiddles & 3) {
        return mica_log_mel_loops.split(twiddles, z, half, s);
    }
    return mica_armv6m_split(z, half, twiddles, (uint32_t)s, LEAST) - 1;
}

static void squares(int32_t *z, uint32_t half, int32_t s) {
    mica_armv6m_squares(z + 2, (uint32_t *)z + 1, (uint32_t *)z + half, (uint32_t)s);
}

static void roots(uint32_t *v, uint32_t n, const uint32_t *table) {
    mica_armv6m_roots(v, v + n, table);
}

static uint64_t band(const uint32_t *bins, const uint16_t *gains, uint32_t n) {
    uint64_t sum = 0;
    const uint32_t even = n & ~1u;
    if (even) {
        mica_armv6m_band(bins, gains, even, &sum);
    }
    return even < n ? sum + mica_log_mel_loops.band(bins + even, gains + even, 1) : sum;
}

static int8_t rounded(const mica_log_mel_s8_t *p, int32_t v) {
    if (v <= -FAST || v >= FAST || p->shift < 1) {
        return mica_log_mel_loops.round(p, v);
    }
    return mica_requant_fast(v, p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
}

static const mica_log_mel_loops_t loops = {sample_bits, take, first, stage, split, squares, roots, band, rounded};

void mica_log_mel_s8_armv6m(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_log_mel_s8_with(p, &loops, scratch, row_begin, row_end);
}

#endif

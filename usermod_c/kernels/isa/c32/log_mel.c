// Sound to features with few instructions a butterfly: a factor serves the butterfly a quarter turn further as well,
// and factors that are 1 or a quarter turn have no products. So the factors have to be those of a circle; with others
// the reference computes.
#include "../../log_mel.h"
#include "sound.h"
#ifdef __ARM_FEATURE_DSP
#include "../armv7em/spectrum.h"
#endif
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8) || !defined(MICA_WITHOUT_AXES_S8)

#include "samples.h"

// v * 2^-s, halves up; round: half of 2^s, 0 for s = 0.
static ALWAYS_INLINE int32_t down(int32_t v, int32_t s, int32_t round) {
    return (v + round) >> s;
}

// The same of both parts.
static ALWAYS_INLINE pair_t get_down(const int32_t *z, int32_t s, int32_t round) {
    const pair_t v = get(z);
    return (pair_t){down(v.r, s, round), down(v.i, s, round)};
}

#ifndef __ARM_FEATURE_DSP
static uint32_t first(int32_t *z, uint32_t half, int32_t s) {
    const int32_t round = 1 << s >> 1;
    uint32_t seen = 0;
    for (int32_t *p = z, *const end = z + 2 * half; p != end; p += 8) {
        const pair_t a = get_down(p, s, round), b = get_down(p + 2, s, round);
        const int32_t sr = a.r + b.r, si = a.i + b.i, tr = a.r - b.r, ti = a.i - b.i;
        const pair_t c = get_down(p + 4, s, round), d = get_down(p + 6, s, round);
        const int32_t ur = c.r + d.r, ui = c.i + d.i, vr = c.r - d.r, vi = c.i - d.i;
        seen |= put(p, sr + ur, si + ui);
        seen |= put(p + 4, sr - ur, si - ui);
        seen |= put(p + 2, tr + vi, ti - vr);
        seen |= put(p + 6, tr - vi, ti + vr);
    }
    return bits_seen(seen, z, 2 * half);
}
#endif

// Four times that.
static ALWAYS_INLINE pair_t get_down4(const int32_t *z, int32_t s, int32_t round) {
    const pair_t v = get(z);
    if (s == 2) {
        return (pair_t){(v.r + 2) & ~3, (v.i + 2) & ~3};
    }
    return (pair_t){down(v.r, s, round) * 4, down(v.i, s, round) * 4};
}

// a + t and a - t, t being (r + i * j) / 2^places.
static ALWAYS_INLINE uint32_t sums(int32_t *p, int32_t *q, int32_t s, int32_t round, int32_t r, int32_t i,
    int32_t places) {
    const pair_t a = get_down4(p, s, round);
    return put(p, a.r + (r >> places), a.i + (i >> places)) | put(q, a.r - (r >> places), a.i - (i >> places));
}

// p, and h complex numbers further q, for each block; then the same with a factor, half a block further with the factor
// a quarter turn further.
static ALWAYS_INLINE uint32_t stage_by(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    const int32_t round = 1 << s >> 1, more = kept(2048);
    const uint32_t step = 2 * (half / h);
    const int32_t *const end = z + 2 * half;
    uint32_t seen = 0;
    for (int32_t *p = z; p < end; p += h) {
        pair_t b = get_down4(p + 2 * h, s, round);
        seen |= sums(p, p + 2 * h, s, round, b.r, b.i, 0);
        p += h;
        b = get_down4(p + 2 * h, s, round);
        seen |= sums(p, p + 2 * h, s, round, b.i, -b.r, 0);
        p += 2 * h;
    }
    for (uint32_t j = h / 2 - 1; j; --j) {
        z += 2;
        twiddles += step;
        const int32_t c = twiddles[0], w = twiddles[1];
        for (int32_t *p = z; p < end; p += h) {
            pair_t b = get_down(p + 2 * h, s, round);
            seen |= sums(p, p + 2 * h, s, round, more + b.r * c + b.i * w, more + b.i * c - b.r * w, 12);
            p += h;
            b = get_down(p + 2 * h, s, round);
            seen |= sums(p, p + 2 * h, s, round, more + b.i * c - b.r * w, more - b.r * c - b.i * w, 12);
            p += 2 * h;
        }
    }
    return seen;
}

#ifdef __ARM_FEATURE_DSP
// Before a stage, 16 bits are as many as fewer.
static uint32_t first(int32_t *z, uint32_t half, int32_t s) {
    const uint32_t seen = bytes_seen(mica_dsp_first(z, z + 2 * half, s, 1 << s >> 1));
    return (seen | seen >> 16) << 16 | 1 << 15;
}

static uint32_t stage(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    const int32_t *const end = z + 2 * half;
    uint32_t seen;
    if (h == 4) {
        seen = bytes_seen(mica_dsp_stage4(z, end, s, 1 << s >> 1, twiddles + half / 2));
    } else if ((s == 2 || s == 3) && 2 * h == half) {
        seen = bytes_seen(mica_dsp_last(z, z + half, z + h, s, twiddles));
    } else if (s == 2 || s == 3) {
        seen = bytes_seen(mica_dsp_stage(z, end, 4 * h, s, twiddles, 4 * (half / h)));
    } else {
        seen = stage_by(twiddles, z, half, h, s);
    }
    return bits_seen(seen, z, 2 * half);
}

static uint32_t split(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s) {
    return bits_seen(bytes_seen(mica_dsp_split(z + 2, z + 2 * half - 2, s, 1 << s >> 1, twiddles)), z + 2,
        2 * half - 2);
}
#else
static uint32_t stage(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    const uint32_t seen = s == 2 ? stage_by(twiddles, z, half, h, 2) : stage_by(twiddles, z, half, h, s);
    return bits_seen(seen, z, 2 * half);
}

// b's factor is that of a with -cos, so both have their products in common.
static uint32_t split(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s) {
    const int32_t round = 1 << s >> 1, more = kept(2048);
    uint32_t seen = 0;
    for (int32_t *p = z + 2, *q = z + 2 * half - 2; p <= q; p += 2, q -= 2) {
        twiddles += 2;
        const int32_t c = twiddles[0], w = twiddles[1];
        const pair_t a = get_down(p, s, round), b = get_down(q, s, round);
        const int32_t pr = a.i + b.i, pi = b.r - a.r, sum = (a.r + b.r) * 4, apart = (a.i - b.i) * 4;
        const int32_t r = more + pr * c + pi * w, i = (more + pi * c - pr * w) >> 12;
        seen |= put(p, sum + (r >> 12), i + apart);
        seen |= put(q, sum + ((2 * more - r) >> 12), i - apart);
    }
    return bits_seen(seen, z + 2, 2 * half - 2);
}
#endif

#ifdef __ARM_FEATURE_DSP
static void squares(int32_t *z, uint32_t k, uint32_t end, int32_t s) {
    mica_dsp_squares((uint32_t *)z + k, (uint32_t *)z + end, s, 1 << s >> 1, z + 2 * k);
}

static void roots(uint32_t *v, uint32_t n, const uint32_t *table) {
    mica_dsp_roots(v, v + n, table - 32);
}
#else
// (v / 4)^2 of a part, rounded down somewhat, as the reference has it.
static ALWAYS_INLINE uint32_t square_of(int32_t v, int32_t s, int32_t round) {
    v = down(v, s, round);
    const uint32_t n = (uint32_t)(v < 0 ? -v : v), high = n >> 2;
    return (n - 2 * high) * high >> 1;
}

static void squares(int32_t *z, uint32_t k, uint32_t end, int32_t s) {
    const int32_t round = 1 << s >> 1;
    uint32_t *to = (uint32_t *)z + k, *const behind = (uint32_t *)z + end;
    for (const int32_t *from = z + 2 * k; to != behind; from += 2) {
        const pair_t v = get(from);
        *to++ = square_of(v.r, s, round) + square_of(v.i, s, round);
    }
}

static void roots(uint32_t *v, uint32_t n, const uint32_t *table) {
    for (const uint32_t *const end = v + n; v != end; ++v) {
        uint32_t x = *v;
        if (!x) {
            continue;
        }
        uint32_t z = 0;
        if (!(x >> 16)) {
            x <<= 16;
            z = 8;
        }
        if (!(x >> 24)) {
            x <<= 8;
            z += 4;
        }
        if (!(x >> 28)) {
            x <<= 4;
            z += 2;
        }
        if (!(x >> 30)) {
            x <<= 2;
            z += 1;
        }
        const uint32_t *at = table + (x >> 25) - 32;
        const uint32_t low = at[0], root = low + (((at[1] - low) * (x << 7 >> 18) + 0x2000) >> 14);
        *v = (root + (1u << z >> 1)) >> z;
    }
}
#endif

// The upper word of the product with 2^16 times the gain is floor(bin * gain / 2^16), less than 2^31.
static ALWAYS_INLINE uint32_t gained(uint32_t bin, uint32_t gain) {
    return (uint32_t)((uint64_t)bin * (gain << 16) >> 32);
}

static ALWAYS_INLINE uint64_t band(const uint32_t *bins, const uint16_t *gains, uint32_t n) {
    uint64_t sum = 0;
    if (n & 1) {
        sum = gained(*bins++, *gains++);
    }
    n >>= 1;
    #ifdef __ARM_FEATURE_DSP
    uint32_t low = (uint32_t)sum, high = 0, a, b, both, one;
    if (n) {
        __asm__ volatile (
            "1:\tldrd %[a], %[b], [%[bins]], #8\n\tldr %[both], [%[gains]], #4\n\tlsl %[one], %[both], #16\n\t"
            "umull %[one], %[a], %[a], %[one]\n\tbfc %[both], #0, #16\n\tumull %[one], %[b], %[b], %[both]\n\t"
            "add %[a], %[b]\n\tadds %[low], %[low], %[a]\n\tadc %[high], %[high], #0\n\t"
            "subs %[n], %[n], #1\n\tbne 1b"
            : [bins] "+r" (bins), [gains] "+r" (gains), [n] "+r" (n), [low] "+r" (low), [high] "+r" (high),
            [a] "=&r" (a), [b] "=&r" (b),
              [both] "=&r" (both), [one] "=&r" (one) : : "cc", "memory");
    }
    return (uint64_t)high << 32 | low;
    #else
    for (; n; --n, bins += 2, gains += 2) {
        sum += gained(bins[0], gains[0]) + gained(bins[1], gains[1]);
    }
    return sum;
    #endif
}

#ifdef __ARM_FEATURE_CLZ
#include "logs.inc"
#endif

static int32_t dct(const int32_t *log, const int16_t *table, uint32_t n) {
    const int32_t *const end = log + n;
    #ifdef __ARM_ARCH
    int64_t sum = 0;
    for (; n & 3; --n) {
        sum += (int64_t)*log++ * *table++;
    }
    for (; log != end; log += 4, table += 4) {
        sum += (int64_t)log[0] * table[0];
        sum += (int64_t)log[1] * table[1];
        sum += (int64_t)log[2] * table[2];
        sum += (int64_t)log[3] * table[3];
    }
    return (int32_t)(sum >> 11);
    #else
    int32_t high = 0;
    uint32_t all = 0;  // but for multiples of 2^32; what high does not have is less than 2^30
    while (log != end) {
        const int32_t v = *log++, w = *table++;
        high += (v >> 12) * w;
        all += (uint32_t)v * (uint32_t)w;
    }
    return high * 2 + ((int32_t)(all - ((uint32_t)high << 12)) >> 11);
    #endif
}

static const mica_log_mel_loops_t loops = {take, first, stage, split, squares, roots, band, dct, mica_log_mel_rounded,
    #ifdef __ARM_FEATURE_CLZ
    logs};
    #else
    NULL};
    #endif

#ifndef MICA_WITHOUT_LOG_MEL_S8
void mica_log_mel_s8_c32(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_log_mel_s8_with(p, p->flags & MICA_LOG_MEL_CIRCLE ? &loops : &mica_log_mel_loops, scratch, row_begin, row_end);
}
#endif

#ifndef MICA_WITHOUT_PCEN_S8
void mica_pcen_s8_c32(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    if (row_begin < row_end) {
        mica_pcen_s8_with(p, p->sound.flags & MICA_LOG_MEL_CIRCLE ? &loops : &mica_log_mel_loops, scratch);
    }
}
#endif

#ifndef MICA_WITHOUT_AXES_S8
void mica_axes_s8_c32(const mica_axes_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_axes_s8_with(p, p->flags & MICA_AXES_CIRCLE ? &loops : &mica_log_mel_loops, scratch, row_begin, row_end);
}
#endif

#endif

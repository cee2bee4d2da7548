// pcan_s8 around its inner loops, which instruction sets may have of their own; arithmetic in SPEC.md. Each of them
// compiles all of it, with its loops in it.
#ifndef MICA_PCAN_H
#define MICA_PCAN_H

#include "kept.h"
#include "log_mel.h"
#include "mica_kernels.h"
#include "requant.h"

#define MICA_PCAN_BITS 14  // of the factors of noise

typedef struct {
    // The frame from x on times the window, shifted up as far as it goes, to the squares of its fft / 2 + 1 bins in z.
    // Returns by how much.
    uint32_t (*spectrum)(const mica_pcan_s8_t *p, const int16_t *x, uint32_t *z);
    uint32_t (*root)(uint64_t v);  // to the nearest integer that has 32 bits
    // v from 0 to 65535
    int8_t (*round)(int32_t v, int32_t mult, int32_t shift, int32_t zero, int32_t low, int32_t high);
} mica_pcan_loops_t;

// How many bits v has.
static inline uint32_t mica_pcan_bit_length(uint32_t v) {
    #ifdef __ARM_FEATURE_CLZ
    return v ? 32 - (uint32_t)__builtin_clz(v) : 0;
    #else
    return (uint32_t)mica_spectrum_bits(v);
    #endif
}

// gain has 16 bits. ARMv6-M makes two products of 32 bits; a core with UMLAL must not: GCC 14 drops the mask there.
static inline uint64_t mica_pcan_product(uint32_t v, uint32_t gain) {
    #ifdef __ARM_ARCH_6M__
    return ((uint64_t)((v >> 16) * gain) << 16) + (v & 0xffffu) * gain;
    #else
    return (uint64_t)v * gain;
    #endif
}

// The square root, rounded to the nearest integer that has 32 bits, without a division.
uint32_t mica_pcan_root(uint64_t v);

// The curve at x: a parabola between powers of two.
static inline uint32_t mica_pcan_gain_at(const int16_t *lut, uint32_t x) {
    int32_t y;
    if (x <= 2) {
        y = lut[x];
    } else {
        const uint32_t n = mica_pcan_bit_length(x);
        const int16_t *t = lut + 4 * n - 6;
        const int32_t f = (int32_t)((n < 11 ? x << (11 - n) : x >> (n - 11)) & 0x3ff);
        y = ((t[2] * f >> 5) + t[1] * 32) * f;
        y = ((y + 0x4000) >> 15) + t[0];
    }
    return y > 0 ? (uint32_t)y : 0;
}

// 2^places * ln(v), v > 1.
static inline uint32_t mica_pcan_log_of(const uint16_t *logs, uint32_t v, uint32_t places) {
    const uint32_t n = mica_pcan_bit_length(v) - 1, over = v - (1u << n),
        f = n < 16 ? over << (16 - n) : over >> (n - 16);
    const uint32_t i = f >> 9;
    const int32_t between = ((int32_t)logs[i + 1] - logs[i]) * (int32_t)(f & 511) >> 16;
    const uint32_t two = (n << 16) + f + logs[i] + (uint32_t)between;
    const uint32_t e = (uint32_t)((45426 * (uint64_t)two + 0x8000) >> 16);
    return (uint32_t)((((uint64_t)e << places) + 0x8000) >> 16);
}

static inline uint32_t mica_pcan_smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// A band's feature before it is rounded to int8, from its signal; its noise goes with it.
static inline uint32_t mica_pcan_feature(const mica_pcan_s8_t *p, uint32_t signal, uint32_t smooth, uint32_t *noise) {
    const uint32_t up = signal << p->places, rest = (1u << MICA_PCAN_BITS) - smooth;
    const uint32_t estimate = (uint32_t)(((uint64_t)up * smooth + (uint64_t)*noise * rest) >> MICA_PCAN_BITS);
    *noise = estimate;
    const uint32_t floor = (uint32_t)((uint64_t)signal * p->least >> MICA_PCAN_BITS);
    const uint32_t left = (up - mica_pcan_smaller(estimate, up)) >> p->places;
    const uint32_t ratio = (uint32_t)((uint64_t)(left > floor ? left : floor) * mica_pcan_gain_at(p->lut, estimate)
        >> p->snr_shift);
    uint32_t v = ratio < 1u << 13 ? ratio * ratio >> 20 : (ratio >> 6) - 64;
    v = p->correction < 0 ? v >> -p->correction : v << p->correction;
    return v > 1 ? mica_pcan_smaller(mica_pcan_log_of(p->logs, v, p->log_places), 65535) : 0;
}

static inline __attribute__((always_inline)) void mica_pcan_s8_with(
    const mica_pcan_s8_t *p, const mica_pcan_loops_t loops, uint32_t *z, uint32_t row_begin, uint32_t row_end) {
    if (row_begin >= row_end) {
        return;
    }
    const uint32_t n = p->fft / 2u;
    uint32_t *noise = z + n + 1;
    mica_kept_take(noise, p->noise, p->bands, p->noise_zero);
    int8_t *y = p->y;
    for (uint32_t r = 0; r < p->frames; ++r) {
        const uint32_t up = loops.spectrum(p, p->x + (size_t)r * p->hop, z);
        const uint16_t *gain = p->gains;
        uint32_t gains = p->n_gains;
        uint64_t sum = 0;
        for (uint32_t b = 0; b <= p->bands; ++b) {
            // Within bins and gains whatever the table says: flash may have changed since it was checked.
            const uint32_t first = mica_pcan_smaller(p->filters[2 * b], n + 1);
            const uint32_t width = mica_pcan_smaller(mica_pcan_smaller(p->filters[2 * b + 1], n + 1 - first), gains);
            uint64_t next = 0;
            for (const uint32_t *m = z + first, *end = m + width; m < end; ++m, gain += 2) {
                sum += mica_pcan_product(*m, gain[0]);
                next += mica_pcan_product(*m, gain[1]);
            }
            gains -= width;
            if (b) {
                const uint32_t v = mica_pcan_feature(p, loops.root(sum) >> up, b % 2 ? p->even : p->odd, noise + b - 1);
                *y++ = loops.round((int32_t)v, p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
            }
            sum = next;
        }
    }
    if (p->noise) {
        mica_kept_put(y, noise, p->bands, p->y_zero);
    }
}

#endif

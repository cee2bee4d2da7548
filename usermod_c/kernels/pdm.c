// mica: the filter behind a PDM microphone; see pdm.h.
#include "pdm.h"
#ifndef MICA_WITHOUT_PDM

#include <string.h>

#define KEPT (MICA_PDM_TAPS - 2)

// Of the half-band filter: each second tap of one half, the outermost first. Its middle is 2^13, and that is the sum of
// the others. With the CIC before it and CORRECTION behind: within 0.25 dB up to 0.375 of the sample rate, -41 dB from
// 0.625 on, which folds back below 0.375.
static const int32_t taps[] = { 105, -285, 662, -1482, 5096 };
#define PAIRS ((MICA_PDM_TAPS + 1) / 4)
#define CORRECTION (13) // 256ths

// Half of the weights of a bit in three sums of eight, one after the other.
static const uint8_t weights[] = { 1, 3, 6, 10, 15, 21, 28, 36, 42, 46, 48 };

__attribute__((cold)) bool mica_pdm_begin(mica_pdm_t *p, int32_t ratio, int32_t gain) {
    memset(p, 0, sizeof(*p));
    p->shift = ratio == 64 ? 0 : ratio == 128 ? 3 : ratio == 256 ? 6 : 9;
    p->gain = gain;
    // Of 22 bits: those of this byte, of the one before, and of the one before that.
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t sums[3] = { 0 };
        for (uint32_t lag = 0; lag < 22; ++lag) {
            sums[lag / 8] += byte >> (7 - lag % 8) & 1 ? weights[lag < 11 ? lag : 21 - lag] : 0;
        }
        // Signs instead of bits: 256 less, in the field that is read.
        p->table[byte] = (sums[0] - 256) << 22 | sums[1] << 12 | sums[2] << 2;
    }
    // As if zeros and ones had alternated before.
    p->carried = (p->table[0x55] << 10) + p->table[0x55];
    return mica_pdm_check(p);
}

bool mica_pdm_check(const mica_pdm_t *p) {
    return (p->shift == 0 || p->shift == 3 || p->shift == 6) && p->gain >= 1 && p->gain <= 64;
}

// A value stays where it is: a Cortex-M0+ has eight registers to compute in, and the compiler plans for more.
#define KEEP(value) __asm__("" : "+r"(value))

// The integrators, then n differences of order 3 at twice the rate of the samples, at most 2^15 from 0. Built twice.
static inline __attribute__((always_inline)) const uint8_t *to_values(mica_pdm_t *p, const uint8_t *bits,
    int32_t *values, size_t n, uint32_t shift) {
    uint32_t carried = p->carried, a = p->sums[0], b = p->sums[1], c = p->sums[2];
    const uint32_t *table = p->table;
    const int32_t *last = values + n;
    for (int32_t *value = values; value != last; ++value) {
        for (uint32_t fours = shift == 0 ? 1 : shift == 3 ? 2 : 4; fours != 0; --fours, bits += 4) {
            #pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) {
                carried = (carried << 10) + table[bits[k]];
                a += (uint32_t)((int32_t)carried >> 22);
                b += a;
                c += b;
                KEEP(c);
            }
        }
        *value = (int32_t)c;
    }
    p->carried = carried, p->sums[0] = a, p->sums[1] = b, p->sums[2] = c;
    a = p->last[0], b = p->last[1], c = p->last[2];
    for (int32_t *value = values; value != last; ++value) {
        const uint32_t first = (uint32_t)*value, second = first - a, third = second - b;
        *value = (int32_t)(2 * (third - c)) >> shift;
        a = first, b = second, c = third;
    }
    p->last[0] = a, p->last[1] = b, p->last[2] = c;
    return bits;
}

void mica_pdm(mica_pdm_t *p, const uint8_t *bits, int16_t *samples, size_t n) {
    while (n != 0) {
        const size_t some = n < MICA_PDM_CHUNK ? n : MICA_PDM_CHUNK;
        int32_t *values = p->values + KEPT;
        bits = p->shift == 0 ? to_values(p, bits, values, 2 * some, 0) : to_values(p, bits, values, 2 * some, p->shift);
        int32_t level = p->level, first = p->before[0], second = p->before[1];
        const int32_t *v = p->values, *h = taps;
        KEEP(h); // read, and not made of shifts and sums
        for (size_t i = 0; i < some; ++i, v += 2) {
            int32_t sum = v[MICA_PDM_TAPS / 2] * (1 << 13);
            #pragma GCC unroll 5
            for (int k = 0; k < PAIRS; ++k) {
                sum += h[k] * (v[2 * k] + v[MICA_PDM_TAPS - 1 - 2 * k]);
            }
            sum >>= 9;
            const int32_t x = second + ((2 * second - first - sum) * CORRECTION >> 8) - (level >> 8);
            first = second, second = sum;
            level += x;
            const int32_t y = (x * p->gain + 16) >> 5;
            samples[i] = (int16_t)(y < -32768 ? -32768 : y > 32767 ? 32767 : y);
        }
        samples += some;
        p->level = level, p->before[0] = first, p->before[1] = second;
        for (size_t i = 0; i < KEPT; ++i) {
            p->values[i] = v[i];
            KEEP(v); // a loop: memmove() goes by bytes
        }
        n -= some;
    }
}

void mica_pdm_ring(mica_pdm_t *p, const uint8_t *bits, size_t bytes, int16_t *samples, size_t n, size_t at) {
    const size_t chunk = (size_t)MICA_PDM_CHUNK * 8 << p->shift / 3;
    for (size_t left = (at + bytes - p->taken % bytes) % bytes; left >= chunk; left -= chunk) {
        p->taken %= (uint32_t)bytes, p->place %= (uint32_t)n;
        mica_pdm(p, bits + p->taken, samples + p->place, MICA_PDM_CHUNK);
        p->taken += (uint32_t)chunk, p->place += MICA_PDM_CHUNK;
        p->count = (p->count + MICA_PDM_CHUNK) & 0xffffff;
    }
}

#endif

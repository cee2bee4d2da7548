// What log_mel.c begins with: complex numbers as its loops have them, and a frame's samples times the window.
#ifndef MICA_C32_SAMPLES_H
#define MICA_C32_SAMPLES_H

#include "sound.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

// All bits of v, or of ~v where v is negative.
static ALWAYS_INLINE uint32_t bits_of(int32_t v) {
    return (uint32_t)(v ^ (v >> 31));
}

typedef struct {
    int32_t r, i;
} pair_t;

// What is seen of numbers, joined by |, until bits_seen() makes bits of it.
#ifdef __ARM_FEATURE_DSP
static ALWAYS_INLINE pair_t get(const int32_t *z) {
    pair_t v;
    __asm__("ldrd %0, %1, %2" : "=r"(v.r), "=r"(v.i) : "Q"(*(const pair_t *)z));
    return v;
}

// Two numbers at z. Of their bits only those above the 16th are seen, both in one word; bit 15 of it says nothing.
static ALWAYS_INLINE uint32_t put(int32_t *z, int32_t r, int32_t i) {
    int32_t high;
    __asm__("strd %1, %2, %0" : "=Q"(*(pair_t *)z) : "r"(r), "r"(i));
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(high) : "r"(r), "r"(i));
    return (uint32_t)(high ^ (high >> 1));
}

// A constant that products are added to: it stays in a register.
static ALWAYS_INLINE int32_t kept(int32_t v) {
    __asm__("" : "+r"(v));
    return v;
}

static uint32_t bits_seen(uint32_t seen, const int32_t *z, uint32_t n) {
    seen = (seen | seen >> 16) & 0x7fff;
    if (MICA_RARELY(!seen)) {
        for (const int32_t *const end = z + n; z != end; ++z) {
            seen |= bits_of(*z);
        }
        return seen;
    }
    return seen << 16;
}
// Of fields of a byte, whose last bits say nothing.
static uint32_t bytes_seen(uint32_t seen) {
    return (seen | seen >> 8) & 0x007f007f;
}
#else
static ALWAYS_INLINE pair_t get(const int32_t *z) {
    return (pair_t){z[0], z[1]};
}

static ALWAYS_INLINE uint32_t put(int32_t *z, int32_t r, int32_t i) {
    z[0] = r;
    z[1] = i;
    return bits_of(r) | bits_of(i);
}

static ALWAYS_INLINE int32_t kept(int32_t v) {
    return v;
}

static ALWAYS_INLINE uint32_t bits_seen(uint32_t seen, const int32_t *z, uint32_t n) {
    (void)z;
    (void)n;
    return seen;
}
#endif

// The place of the next four pairs: places count backwards, from the bit `top` down.
#ifdef __ARM_FEATURE_DSP
static ALWAYS_INLINE uint32_t turned(uint32_t v) {
    __asm__("rbit %0, %0" : "+r"(v));
    return v;
}

static ALWAYS_INLINE uint32_t next_place(uint32_t place, uint32_t top) {
    return turned(turned(place) + turned(top));
}

static ALWAYS_INLINE uint32_t plain_pair(int32_t *z, const int16_t *x, const int16_t *w) {
    uint32_t both, windows;
    int32_t r, i;
    __builtin_memcpy(&both, x, 4);
    __builtin_memcpy(&windows, w, 4);
    __asm__("smulbb %0, %1, %2" : "=r"(r) : "r"(both), "r"(windows));
    __asm__("smultt %0, %1, %2" : "=r"(i) : "r"(both), "r"(windows));
    return put(z, r, i);
}

// What lies behind n samples, n a multiple of 8. Returns bits.
static uint32_t take_rest(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s, uint32_t n) {
    const uint32_t half = p->fft / 2u;
    if (n != p->frame) {
        return mica_log_mel_take_from(p, begin, z, s, n / 2);
    }
    uint32_t place = turned(n / 8) >> (__builtin_clz(half) + 3);
    for (uint32_t fours = (p->fft - n) / 8; fours; --fours) {
        int32_t *a = z + 2 * place;
        a[0] = a[1] = a[half] = a[half + 1] = 0;
        a += half / 2;
        a[0] = a[1] = a[half] = a[half + 1] = 0;
        place = next_place(place, half >> 3);
    }
    return 0;
}
#else
static ALWAYS_INLINE uint32_t next_place(uint32_t place, uint32_t top) {
    for (; place & top; top >>= 1) {
        place ^= top;
    }
    return place | top;
}

static ALWAYS_INLINE uint32_t plain_pair(int32_t *z, const int16_t *x, const int16_t *w) {
    return put(z, x[0] * w[0], x[1] * w[1]);
}

static uint32_t take_rest(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s, uint32_t n) {
    return mica_log_mel_take_from(p, begin, z, s, n / 2);
}
#endif

// n samples times the window, n a multiple of 8.
static uint32_t take_plain(const int16_t *x, const int16_t *window, int32_t *z, uint32_t n, uint32_t half) {
    uint32_t used = 0, place = 0;
    for (const int16_t *const end = x + n; x != end; x += 8, window += 8) {
        int32_t *a = z + 2 * place, *b = a + half / 2;
        used |= plain_pair(a, x, window);
        used |= plain_pair(a + half, x + 2, window + 2);
        used |= plain_pair(b, x + 4, window + 4);
        used |= plain_pair(b + half, x + 6, window + 6);
        place = next_place(place, half >> 3);
    }
    return used;
}

// Of n samples after pre-emphasis; before: the sample before the first.
static uint32_t steep_bits(const int16_t *x, int32_t preemphasis, uint32_t n, int32_t before) {
    uint32_t bits = 0;
    for (const int16_t *const end = x + n; x != end; x += 2) {
        const int32_t v = x[0], w = x[1];
        bits |= bits_of(v * 32768 - preemphasis * before);
        bits |= bits_of(w * 32768 - preemphasis * v);
        before = w;
    }
    return bits;
}

// Two samples after pre-emphasis, shifted by s > 0, times the window.
static ALWAYS_INLINE uint32_t steep_pair(int32_t *z, const int16_t *x, const int16_t *w, int32_t preemphasis,
    int32_t before, int32_t s, int32_t round) {
    const int32_t u = x[0], v = x[1];
    return put(z, ((u * 32768 - preemphasis * before + round) >> s) * w[0],
        ((v * 32768 - preemphasis * u + round) >> s) * w[1]);
}

static uint32_t take_steep(
    const int16_t *x, const int16_t *window, int32_t *z, uint32_t n, uint32_t half, int32_t preemphasis, int32_t before,
        int32_t s) {
    const int32_t round = 1 << (s - 1);
    uint32_t used = 0, place = 0;
    for (const int16_t *const end = x + n; x != end; x += 8, window += 8) {
        int32_t *a = z + 2 * place, *b = a + half / 2;
        used |= steep_pair(a, x, window, preemphasis, before, s, round);
        used |= steep_pair(a + half, x + 2, window + 2, preemphasis, x[1], s, round);
        used |= steep_pair(b, x + 4, window + 4, preemphasis, x[3], s, round);
        used |= steep_pair(b + half, x + 6, window + 6, preemphasis, x[5], s, round);
        before = x[7];
        place = next_place(place, half >> 3);
    }
    return used;
}

static uint32_t take(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t *exponent) {
    const uint32_t n = p->frame & ~7u, half = p->fft / 2u;
    const int16_t *x = p->x + begin;
    if (!p->preemphasis) {
        const uint32_t seen = take_plain(x, p->window, z, n, half), rest = take_rest(p, begin, z, 0, n);
        const uint32_t used = bits_seen(seen, z, p->fft) | rest;
        if (used >> 15) {
            *exponent = -15;
            return used;
        }
    } else if (p->preemphasis < 1 << 15) {
        const int32_t before = x[begin ? -1 : 0];
        const int32_t bits = mica_spectrum_bits(steep_bits(x, p->preemphasis, n, before)
            | mica_log_mel_sample_bits_from(p, begin, n));
        if (bits > 15) {
            *exponent = bits - 15 - 30;
            const uint32_t seen = take_steep(x, p->window, z, n, half, p->preemphasis, before, bits - 15);
            const uint32_t rest = take_rest(p, begin, z, bits - 15, n);
            return bits_seen(seen, z, p->fft) | rest;
        }
    }
    return mica_log_mel_loops.take(p, begin, z, exponent);
}

#endif

// Sound and motion to features with MVE, two complex numbers or four real ones at a time. Twiddles have to be those of
// a circle; with others the reference computes.
#include "../c32/sound.h"
#include "kernels.h"
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8) || !defined(MICA_WITHOUT_AXES_S8)

#include <stddef.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))

// Bits of n numbers at z, whose largest magnitudes are `most`. -2^k has a bit less than its magnitude: where that may
// matter, all are looked at.
static uint32_t bits_seen(uint32x4_t most, const int32_t *z, uint32_t n) {
    uint32_t seen = vmaxvq_u32(0, most);
    if (MICA_RARELY((seen & (seen - 1)) == 0)) {
        seen = 0;
        for (const int32_t *const end = z + n; z != end; ++z) {
            seen |= (uint32_t)(*z ^ (*z >> 31));
        }
    }
    return seen;
}

static ALWAYS_INLINE int32x4_t next(const int16_t **x) {
    int32x4_t v;
    __asm__("vldrh.s32 %q0, [%1], #8" : "=w" (v), "+l" (*x) : "m" (*(const int16_t(*)[4])*x));
    return v;
}

// Four samples on their way into z: the sample before the first of them is carried from vector to vector.
typedef struct {
    int32_t s, minus;  // 0: no pre-emphasis
    uint32_t before;
} steep_t;

static ALWAYS_INLINE int32x4_t after_emphasis(int32x4_t x, steep_t *steep) {
    const int32x4_t shifted = vshlq_n_s32(x, 15);
    return vmlaq_n_s32(shifted, vshlcq_s32(x, &steep->before, 32), steep->minus);
}

static ALWAYS_INLINE int32x4_t windowed(int32x4_t x, int32x4_t window, steep_t *steep, bool emphasis) {
    return vmulq_s32(emphasis ? vrshlq_n_s32(after_emphasis(x, steep), -steep->s) : x, window);
}

// Of a frame's samples after pre-emphasis the largest magnitudes.
static uint32x4_t loudest(const int16_t *x, uint32_t n, steep_t steep) {
    uint32x4_t most = vdupq_n_u32(0);
    for (; n >= 4; n -= 4, x += 4) {
        most = vmaxaq_s32(most, after_emphasis(vldrhq_s32(x), &steep));
    }
    const mve_pred16_t rest = vctp32q(n);
    return vmaxaq_m_s32(most, after_emphasis(vldrhq_z_s32(x, rest), &steep), rest);
}

// The frame times the window into z. Places count backwards: four pairs lie a quarter of z apart.
static ALWAYS_INLINE uint32x4_t take_by(
    const int16_t *x, const int16_t *window, uint32_t frame, int32_t *z, uint32_t half, steep_t steep, bool emphasis) {
    const uint32_t one = 1u << (__builtin_clz(half) - 2);
    const uint32x4_t two = {0, 4, half * 4, half * 4 + 4};
    uint32x4_t most = vdupq_n_u32(0);
    uint32_t k = 0, n = frame & 7;
    for (uint32_t eights = frame / 8; eights; --eights, k += 4 * one) {
        int32_t *const to = (int32_t *)(void *)((char *)z + mica_mve_turned(k));
        const int32x4_t a = windowed(next(&x), next(&window), &steep, emphasis);
        const int32x4_t b = windowed(next(&x), next(&window), &steep, emphasis);
        vstrwq_scatter_offset_s32(to, two, a);
        vstrwq_scatter_offset_s32(to + half / 2, two, b);
        most = vmaxaq_s32(vmaxaq_s32(most, a), b);
    }
    for (; k < half * one; k += 2 * one, x += 4, window += 4) {
        const mve_pred16_t some = vctp32q(n);
        const int32x4_t a = windowed(vldrhq_z_s32(x, some), vldrhq_z_s32(window, some), &steep, emphasis);
        vstrwq_scatter_offset_s32((int32_t *)(void *)((char *)z + mica_mve_turned(k)), two, a);
        most = vmaxaq_s32(most, a);
        n = n > 4 ? n - 4 : 0;
    }
    return most;
}

static uint32_t take(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t *exponent) {
    const int16_t *x = p->x + begin;
    const uint32_t half = p->fft / 2u;
    steep_t steep = {0, -(int32_t)p->preemphasis, (uint32_t)(int32_t)x[begin ? -1 : 0]};
    if (!p->preemphasis) {
        const uint32_t used = bits_seen(take_by(x, p->window, p->frame, z, half, steep, false), z, p->fft);
        if (used >> 15) {
            *exponent = -15;
            return used;
        }
    } else if (p->preemphasis < 1 << 15) {
        uint32_t used = vmaxvq_u32(0, loudest(x, p->frame, steep));
        used = used & (used - 1) ? used : mica_log_mel_sample_bits_from(p, begin, 0);
        steep.s = mica_spectrum_bits(used) - 15;
        if (steep.s > 0) {
            *exponent = steep.s - 30;
            return bits_seen(take_by(x, p->window, p->frame, z, half, steep, true), z, p->fft);
        }
    }
    return mica_log_mel_loops.take(p, begin, z, exponent);
}

// Two groups of four at a time.
static uint32_t first(int32_t *z, uint32_t half, int32_t s) {
    uint32x4_t most = vdupq_n_u32(0), at = {0, 4, 32, 36};
    at = vaddq_n_u32(at, (uint32_t)(uintptr_t)z);
    for (uint32_t n = half / 8; n; --n) {
        const int32x4_t a = vrshlq_n_s32(vldrwq_gather_base_s32(at, 0), -s),
            b = vrshlq_n_s32(vldrwq_gather_base_s32(at, 8), -s);
        const int32x4_t c = vrshlq_n_s32(vldrwq_gather_base_s32(at, 16), -s),
            d = vrshlq_n_s32(vldrwq_gather_base_s32(at, 24), -s);
        const int32x4_t ab = vaddq_s32(a, b), cd = vaddq_s32(c, d), a_b = vsubq_s32(a, b), c_d = vsubq_s32(c, d);
        const int32x4_t e = vaddq_s32(ab, cd), f = vsubq_s32(ab, cd), g = vcaddq_rot270_s32(a_b, c_d),
            h = vcaddq_rot90_s32(a_b, c_d);
        vstrwq_scatter_base_s32(at, 0, e);
        vstrwq_scatter_base_s32(at, 16, f);
        vstrwq_scatter_base_s32(at, 8, g);
        vstrwq_scatter_base_s32(at, 24, h);
        most = vmaxaq_s32(vmaxaq_s32(vmaxaq_s32(vmaxaq_s32(most, e), f), g), h);
        at = vaddq_n_u32(at, 64);
    }
    return bits_seen(most, z, 2 * half);
}

// n times two butterflies, of p and q: 8 * (c - i w) of 2^-17 gives t with its rounding, as VQRDML.. has 2 * product /
// 2^32. `load` brings the factors into q4; p and q then move by `step` bytes.
#define BUTTERFLIES(load, step) \
    __asm__ volatile ( \
        "dls lr, %[n]\n1:\t" load "vldrw.32 q1, [%[q]]\n\tvldrw.32 q0, [%[p]]\n\tvrshl.s32 q1, %[s]\n\t" \
        "vrshl.s32 q0, %[s]\n\tvshl.i32 q1, q1, #3\n\tvshl.i32 q0, q0, #2\n\tvqrdmladh.s32 q2, q1, q4\n\t" \
        "vqrdmlsdhx.s32 q2, q1, q4\n\tvadd.i32 q3, q0, q2\n\tvsub.i32 q0, q0, q2\n\t" \
        "vstrw.32 q3, [%[p]], #" step "\n\tvmaxa.s32 %q[most], q3\n\t" \
        "vstrw.32 q0, [%[q]], #" step "\n\tvmaxa.s32 %q[most], q0\n\tle lr, 1b" \
        : [p] "+r" (p), [q] "+r" (q), [t] "+r" (t), [most] "+w" (most), "+w" (factors) \
        : [n] "r" (n), [s] "r" (-s), [apart] "r" (apart), [two] "w" (two) \
        : "lr", "q0", "q1", "q2", "q3", "memory")
#define NEXT_FACTORS "vldrh.s32 q4, [%[t], %q[two]]\n\tadd %[t], %[apart]\n\tvshl.i32 q4, q4, #16\n\t"

// The same factors for all blocks, two at a time.
#define EACH_FACTOR(step_bytes) \
    for (int32_t *from = z; from != z + 2 * h; from += 4, t += step) { \
        int32_t *p = from, *q = from + 2 * h; \
        factors = vshlq_n_s32(vldrhq_gather_offset_s32(t, two), 16); \
        BUTTERFLIES("", step_bytes); \
    }

static uint32_t stage(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    const uint32_t step = 4 * (half / h), apart = 2 * step;
    const uint32x4_t two = {0, 2, step, step + 2};
    uint32x4_t most = vdupq_n_u32(0);
    register int32x4_t factors __asm__("q4") = vdupq_n_s32(0);
    const int16_t *t = twiddles;
    const uint32_t n = h > 16 ? h / 2 : half / (2 * h);
    if (h == 4) {
        EACH_FACTOR("64")
    } else if (h == 8) {
        EACH_FACTOR("128")
    } else if (h == 16) {
        EACH_FACTOR("256")
    } else {  // block by block
        for (int32_t *p = z, *q = z + 2 * h; p != z + 2 * half; p = q, q += 2 * h, t = twiddles) {
            BUTTERFLIES(NEXT_FACTORS, "16");
        }
    }
    return bits_seen(most, z, 2 * half);
}

// a and b, of k and half - k: from e = conj(b) - a and its negative, with (w, c), the three roundings that there are.
static uint32_t split(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s) {
    const uint32x4_t back = {8, 12, 0, 4};
    const int32x4_t conjugate = {1, -1, 1, -1};
    uint32x4_t most = vdupq_n_u32(0);
    int32_t *p = z + 2, *q = z + 2 * half - 4;
    twiddles += 2;
    __asm__ volatile (
        "dls lr, %[n]\n1:\tvldrh.s32 q4, [%[t]], #8\n\tvldrw.32 q1, [%[p]]\n\tvldrw.u32 q2, [%[q], %q[back]]\n\t"
        "vrshl.s32 q1, %[s]\n\tvrshl.s32 q2, %[s]\n\tvrev64.32 q0, q4\n\tvmul.i32 q2, q2, %q[conj]\n\t"
        "vshl.i32 q0, q0, #16\n\tvsub.i32 q3, q2, q1\n\tvadd.i32 q1, q1, q2\n\tvshl.i32 q3, q3, #3\n\t"
        "vshl.i32 q1, q1, #2\n\tvqrdmladhx.s32 q2, q3, q0\n\tvqrdmlsdh.s32 q2, q3, q0\n\tvneg.s32 q3, q3\n\t"
        "vadd.i32 q4, q1, q2\n\tvqrdmlsdh.s32 q2, q3, q0\n\tvstrw.32 q4, [%[p]], #16\n\tvmul.i32 q1, q1, %q[conj]\n\t"
        "vmaxa.s32 %q[most], q4\n\tvadd.i32 q1, q1, q2\n\tvstrw.32 q1, [%[q], %q[back]]\n\tvmaxa.s32 %q[most], q1\n\t"
        "subs %[q], #16\n\tle lr, 1b"
        : [p] "+l" (p), [q] "+l" (q), [t] "+l" (twiddles), [most] "+w" (most)
        : [n] "r" (half / 4), [s] "r" (-s), [back] "w" (back), [conj] "w" (conjugate)
        : "lr", "q0", "q1", "q2", "q3", "q4", "cc", "memory");
    return bits_seen(most, z + 2, 2 * half - 2);
}

static ALWAYS_INLINE uint32x4_t square_of(int32x4_t v, int32_t s) {
    const uint32x4_t n = vreinterpretq_u32_s32(vabsq_s32(vrshlq_n_s32(v, -s))), high = vshrq_n_u32(n, 2);
    return vshrq_n_u32(vmulq_u32(vmlaq_n_u32(n, high, (uint32_t)-2), high), 1);
}

static void squares(int32_t *z, uint32_t k, uint32_t end, int32_t s) {
    const int32_t *from = z + 2 * k;
    uint32_t *to = (uint32_t *)z + k;
    for (uint32_t n = end - k;; n -= 4, from += 8, to += 4) {
        if (n < 4) {  // of the last ones nothing behind them is read
            const mve_pred16_t some = vctp32q(n);
            const uint32x4_t places = {0, 8, 16, 24};
            const int32x4_t r = vldrwq_gather_offset_z_s32(from, places, some),
                i = vldrwq_gather_offset_z_s32(from + 1, places, some);
            vstrwq_p_u32(to, vaddq_u32(square_of(r, s), square_of(i, s)), some);
            return;
        }
        const int32x4x2_t v = vld2q_s32(from);
        vstrwq_u32(to, vaddq_u32(square_of(v.val[0], s), square_of(v.val[1], s)));
    }
}

// And those of the up to three numbers behind them, of which nobody asks. Of 0 nothing is loaded, which makes zeros.
static void roots(uint32_t *v, uint32_t n, const uint32_t *table) {
    __asm__ volatile (
        "dls lr, %[n]\n1:\tvldrw.u32 q0, [%[v]]\n\tvclz.i32 q1, q0\n\tvbic.i32 q1, #1\n\tvshl.u32 q0, q0, q1\n\t"
        "vshr.u32 q2, q0, #25\n\tvshl.i32 q3, q0, #7\n\tvptt.i32 ne, q0, zr\n\tvldrwt.u32 q4, [%[low], q2, uxtw #2]\n\t"
        "vldrwt.u32 q5, [%[high], q2, uxtw #2]\n\tvshr.u32 q3, q3, #18\n\tvsub.i32 q5, q5, q4\n\t"
        "vmul.i32 q5, q5, q3\n\tvshr.s32 q1, q1, #1\n\tvrshr.u32 q5, q5, #14\n\tvneg.s32 q1, q1\n\t"
        "vadd.i32 q4, q4, q5\n\tvrshl.u32 q4, q4, q1\n\tvstrw.32 q4, [%[v]], #16\n\tle lr, 1b"
        : [v] "+r" (v) : [n] "r" ((n + 3) / 4), [low] "r" (table - 32), [high] "r" (table - 31)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "memory");
}

static uint64_t band(const uint32_t *bins, const uint16_t *gains, uint32_t n) {
    register uint32_t low __asm__("r2") = 0;
    register uint32_t high __asm__("r3") = 0;
    __asm__ volatile (
        "wlstp.32 lr, %[n], 2f\n1:\tvldrh.u32 q0, [%[gains]], #8\n\tvldrw.u32 q1, [%[bins]], #16\n\t"
        "vshl.i32 q0, q0, #16\n\tvmulh.u32 q0, q0, q1\n\tvaddlva.u32 %[low], %[high], q0\n\tletp lr, 1b\n2:"
        : [low] "+r" (low), [high] "+r" (high), [bins] "+r" (bins), [gains] "+l" (gains) : [n] "r" (n) : "lr", "q0",
        "q1", "memory");
    return (uint64_t)high << 32 | low;
}

#include "../c32/logs.inc"

static int32_t dct(const int32_t *log, const int16_t *table, uint32_t n) {
    register uint32_t low __asm__("r2") = 0;
    register int32_t high __asm__("r3") = 0;
    __asm__ volatile (
        "wlstp.32 lr, %[n], 2f\n1:\tvldrh.s32 q0, [%[table]], #8\n\tvldrw.s32 q1, [%[log]], #16\n\t"
        "vmlaldava.s32 %[low], %[high], q0, q1\n\tletp lr, 1b\n2:\tlsrl %[low], %[high], #11"
        : [low] "+r" (low), [high] "+r" (high), [log] "+r" (log), [table] "+l" (table) : [n] "r" (n) : "lr", "q0", "q1",
        "memory");
    return (int32_t)low;
}

static const mica_log_mel_loops_t loops =
    {take, first, stage, split, squares, roots, band, dct, mica_log_mel_rounded, logs};

#ifndef MICA_WITHOUT_LOG_MEL_S8
void mica_log_mel_s8_armv81m(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_log_mel_s8_with(p, p->flags & MICA_LOG_MEL_CIRCLE ? &loops : &mica_log_mel_loops, scratch, row_begin, row_end);
}
#endif

#ifndef MICA_WITHOUT_PCEN_S8
void mica_pcen_s8_armv81m(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    if (row_begin < row_end) {
        mica_pcen_s8_with(p, p->sound.flags & MICA_LOG_MEL_CIRCLE ? &loops : &mica_log_mel_loops, scratch);
    }
}
#endif

#ifndef MICA_WITHOUT_AXES_S8
void mica_axes_s8_armv81m(const mica_axes_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_axes_s8_with(p, p->flags & MICA_AXES_CIRCLE ? &loops : &mica_log_mel_loops, scratch, row_begin, row_end);
}
#endif

#endif

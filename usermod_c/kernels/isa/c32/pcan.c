// Speech to features as the reference has them, bit for bit, with few instructions: a factor that is next to 1 changes
// no number that a stage has scaled, so it has no products; the first stage shifts the frame up on its way. So the
// first factor has to be that; with another the reference computes.
#include "../../pcan.h"
#include "kernels.h"
#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>
#endif
#if !defined(MICA_WITHOUT_PCAN_S8) && !defined(MICA_WITHOUT_PCAN_LOOPS)

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define HALF 16383  // next to 1/2 and 1/4, in units of 2^-15
#define QUARTER 8191

// The place of the next four pairs before the transform of n: the digits of base 4 behind the first, of which `digit`
// is the highest, count the other way round; the last of base 2 where n is no power of four.
static ALWAYS_INLINE uint32_t next_place(uint32_t place, uint32_t digit) {
    for (; digit && (place & 3 * digit) == 3 * digit; digit >>= 2) {
        place -= 3 * digit;
    }
    return place + (digit ? digit : 1);
}

#ifdef __ARM_FEATURE_MVE
#include "../armv81m/pcan.inc"
#else
// Where it is not sure to be aligned to 4: two int16.
typedef uint32_t __attribute__((may_alias, aligned(2))) halves_t;

#ifdef __ARM_FEATURE_DSP
// A complex number in a word: two int16. Sums wrap round, as those of the reference do where they are put into 16 bits.
typedef uint32_t pair_t;

static ALWAYS_INLINE pair_t get(const uint32_t *z) {
    return *z;
}

static ALWAYS_INLINE void put(uint32_t *z, pair_t v) {
    *z = v;
}

static ALWAYS_INLINE pair_t factor_at(const int16_t *t) {
    return *(const halves_t *)t;
}

static ALWAYS_INLINE pair_t add(pair_t a, pair_t b) {
    pair_t v;
    __asm__("sadd16 %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

static ALWAYS_INLINE pair_t sub(pair_t a, pair_t b) {
    pair_t v;
    __asm__("ssub16 %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

// a - j * b, a + j * b.
static ALWAYS_INLINE pair_t add_back(pair_t a, pair_t b) {
    pair_t v;
    __asm__("ssax %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

static ALWAYS_INLINE pair_t add_turned(pair_t a, pair_t b) {
    pair_t v;
    __asm__("sasx %0, %1, %2" : "=r"(v) : "r"(a), "r"(b));
    return v;
}

// v times two factors in units of 2^-16, halves up.
static ALWAYS_INLINE pair_t scaled_by(pair_t v, int32_t r, int32_t i) {
    const int32_t half = 0x8000;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(r) : "r"(v), "r"(r), "r"(half));
    __asm__("smlatb %0, %1, %2, %3" : "=r"(i) : "r"(v), "r"(i), "r"(half));
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(v) : "r"(i), "r"(r));
    return v;
}

static ALWAYS_INLINE pair_t scaled(pair_t v, int32_t factor) {
    return scaled_by(v, 2 * factor, 2 * factor);
}

static ALWAYS_INLINE pair_t scaled_conjugate(pair_t v, int32_t factor) {
    return scaled_by(v, 2 * factor, -2 * factor);
}

// v, shifted up, times a factor.
static ALWAYS_INLINE pair_t raised(pair_t v, int32_t factor, uint32_t up) {
    const uint32_t ones = 0x10001;
    int32_t r, i;
    factor = (int32_t)((uint32_t)factor << (up + 2));
    __asm__("smulwb %0, %1, %2" : "=r"(r) : "r"(factor), "r"(v));
    __asm__("smulwt %0, %1, %2" : "=r"(i) : "r"(factor), "r"(v));
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(v) : "r"(r), "r"(i));
    __asm__("shadd16 %0, %1, %2" : "=r"(v) : "r"(v), "r"(ones));
    return v;
}

// The parts of v times t in units of 2^-15, and a half.
static ALWAYS_INLINE int32_t real_product(pair_t v, pair_t t) {
    int32_t r;
    __asm__("smlsd %0, %1, %2, %3" : "=r"(r) : "r"(v), "r"(t), "r"(0x4000));
    return r;
}

static ALWAYS_INLINE int32_t imaginary_product(pair_t v, pair_t t) {
    int32_t i;
    __asm__("smladx %0, %1, %2, %3" : "=r"(i) : "r"(v), "r"(t), "r"(0x4000));
    return i;
}

static ALWAYS_INLINE pair_t times(pair_t v, pair_t t) {
    const int32_t r = real_product(v, t) >> 15, i = imaginary_product(v, t);
    __asm__("pkhbt %0, %1, %2, lsl #1" : "=r"(v) : "r"(r), "r"(i));
    return v;
}

static ALWAYS_INLINE int32_t real(pair_t v) {
    return (int16_t)v;
}

static ALWAYS_INLINE int32_t imaginary(pair_t v) {
    return (int32_t)v >> 16;
}

// The square of the size of half of r + j * i, whose parts wrap round.
static ALWAYS_INLINE uint32_t energy(int32_t r, int32_t i) {
    uint32_t v;
    __asm__("pkhbt %0, %1, %2, lsl #15" : "=r"(v) : "r"(r >> 1), "r"(i));
    __asm__("smuad %0, %1, %1" : "=r"(v) : "r"(v));
    return v;
}

// Two samples times the window. Returns the bits of their sizes, of both parts.
static ALWAYS_INLINE uint32_t take_pair(uint32_t *z, const int16_t *x, const int16_t *window) {
    const pair_t v = factor_at(x), w = factor_at(window);
    int32_t r, i;
    uint32_t size;
    pair_t both;
    __asm__("smulbb %0, %1, %2" : "=r"(r) : "r"(v), "r"(w));
    __asm__("smultt %0, %1, %2" : "=r"(i) : "r"(v), "r"(w));
    __asm__("ssat %0, #16, %1, asr #12" : "=r"(r) : "r"(r));
    __asm__("ssat %0, #16, %1, asr #12" : "=r"(i) : "r"(i));
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(both) : "r"(r), "r"(i));
    __asm__("ssub16 %0, %1, %2\n\tsel %0, %0, %2" : "=&r"(size) : "r"(0), "r"(both));
    *z = both;
    return size;
}

static ALWAYS_INLINE uint32_t joined(uint32_t sizes) {
    return (sizes | sizes >> 16) & 0xffff;
}
#else
typedef int16_t __attribute__((may_alias)) half_t;

typedef struct {
    int32_t r, i;
} pair_t;

static ALWAYS_INLINE pair_t get(const uint32_t *z) {
    const half_t *v = (const half_t *)z;
    return (pair_t){v[0], v[1]};
}

// Of parts that may have more than 16 bits the lower ones stay.
static ALWAYS_INLINE void put(uint32_t *z, pair_t v) {
    half_t *to = (half_t *)z;
    to[0] = (int16_t)v.r;
    to[1] = (int16_t)v.i;
}

static ALWAYS_INLINE pair_t factor_at(const int16_t *t) {
    return (pair_t){t[0], t[1]};
}

static ALWAYS_INLINE pair_t add(pair_t a, pair_t b) {
    return (pair_t){a.r + b.r, a.i + b.i};
}

static ALWAYS_INLINE pair_t sub(pair_t a, pair_t b) {
    return (pair_t){a.r - b.r, a.i - b.i};
}

// a - j * b, a + j * b.
static ALWAYS_INLINE pair_t add_back(pair_t a, pair_t b) {
    return (pair_t){a.r + b.i, a.i - b.r};
}

static ALWAYS_INLINE pair_t add_turned(pair_t a, pair_t b) {
    return (pair_t){a.r - b.i, a.i + b.r};
}

static ALWAYS_INLINE pair_t scaled(pair_t v, int32_t factor) {
    return (pair_t){(v.r * factor + 0x4000) >> 15, (v.i * factor + 0x4000) >> 15};
}

static ALWAYS_INLINE pair_t scaled_conjugate(pair_t v, int32_t factor) {
    return (pair_t){(v.r * factor + 0x4000) >> 15, (v.i * -factor + 0x4000) >> 15};
}

// v, shifted up, times a factor.
static ALWAYS_INLINE pair_t raised(pair_t v, int32_t factor, uint32_t up) {
    return scaled(v, factor << up);
}

// The parts of v times t in units of 2^-15, and a half.
static ALWAYS_INLINE int32_t real_product(pair_t v, pair_t t) {
    return v.r * t.r - v.i * t.i + 0x4000;
}

static ALWAYS_INLINE int32_t imaginary_product(pair_t v, pair_t t) {
    return v.r * t.i + v.i * t.r + 0x4000;
}

static ALWAYS_INLINE pair_t times(pair_t v, pair_t t) {
    return (pair_t){real_product(v, t) >> 15, imaginary_product(v, t) >> 15};
}

static ALWAYS_INLINE int32_t real(pair_t v) {
    return v.r;
}

static ALWAYS_INLINE int32_t imaginary(pair_t v) {
    return v.i;
}

// The square of the size of half of r + j * i, whose parts wrap round.
static ALWAYS_INLINE uint32_t energy(int32_t r, int32_t i) {
    r = (int16_t)(r >> 1);
    i = (int16_t)(i >> 1);
    return (uint32_t)(r * r) + (uint32_t)(i * i);
}

static ALWAYS_INLINE uint32_t size_of(int32_t v) {
    return (uint32_t)(v < 0 ? -v : v);
}

// Two samples times the window. Returns the bits of their sizes.
static ALWAYS_INLINE uint32_t take_pair(uint32_t *z, const int16_t *x, const int16_t *window) {
    pair_t v = {(x[0] * window[0]) >> 12, (x[1] * window[1]) >> 12};
    const uint32_t size = size_of(v.r) | size_of(v.i);
    if (MICA_RARELY(size >> 15)) {
        v.r = v.r > INT16_MAX ? INT16_MAX : v.r < INT16_MIN ? INT16_MIN : v.r;
        v.i = v.i > INT16_MAX ? INT16_MAX : v.i < INT16_MIN ? INT16_MIN : v.i;
    }
    put(z, v);
    return size;
}

static ALWAYS_INLINE uint32_t joined(uint32_t sizes) {
    return sizes;
}
#endif

// The last samples of the frame and zeros behind them as four pairs, `apart` words apart. Returns their bits.
static uint32_t take_last(uint32_t *z, uint32_t apart, const int16_t *x, const int16_t *window, uint32_t n) {
    int16_t last[8] = {0}, factors[8] = {0};
    for (uint32_t i = 0; i < n; ++i) {
        last[i] = x[i];
        factors[i] = window[i];
    }
    uint32_t sizes = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        sizes |= take_pair(z + i * apart, last + 2 * i, factors + 2 * i);
    }
    return sizes;
}

// The frame times the window, as pairs in the order of the transform. Returns by how much they can be shifted up.
static uint32_t take(const mica_pcan_s8_t *p, const int16_t *x, uint32_t *z) {
    const uint32_t n = p->fft / 2u, apart = n / 4;
    const int16_t *window = p->window;
    uint32_t sizes = 0, place = 0, left = p->frame;
    for (uint32_t k = 0; k < n; k += 4, place = next_place(place, apart / 4)) {
        uint32_t *to = z + place;
        if (left >= 8) {
            sizes |= take_pair(to, x, window);
            sizes |= take_pair(to + apart, x + 2, window + 2);
            sizes |= take_pair(to + 2 * apart, x + 4, window + 4);
            sizes |= take_pair(to + 3 * apart, x + 6, window + 6);
            x += 8;
            window += 8;
            left -= 8;
        } else {
            sizes |= take_last(to, apart, x, window, left);
            left = 0;
        }
    }
    const uint32_t bits = mica_pcan_bit_length(joined(sizes));
    return bits < 15 ? 15 - bits : 0;
}

// Four complex numbers m apart, their factors in them, to their sums.
static ALWAYS_INLINE void butterfly(uint32_t *z, uint32_t m, pair_t f, pair_t a, pair_t b, pair_t c) {
    const pair_t low = sub(f, b), high = add(f, b), sum = add(a, c), apart = sub(a, c);
    put(z, add(high, sum));
    put(z + m, add_back(low, apart));
    put(z + 2 * m, sub(high, sum));
    put(z + 3 * m, add_turned(low, apart));
}

static void transform(const int16_t *twiddles, uint32_t *z, uint32_t n, uint32_t up) {
    uint32_t *const end = z + n, m = 4;
    if (n & 0xaaaaaaaa) {  // no power of four
        m = 2;
        for (uint32_t *q = z; q < end; q += 2) {
            const pair_t a = raised(get(q), HALF, up), b = raised(get(q + 1), HALF, up);
            put(q, add(a, b));
            put(q + 1, sub(a, b));
        }
    } else {
        for (uint32_t *q = z; q < end; q += 4) {
            butterfly(q, 1, raised(get(q), QUARTER, up), raised(get(q + 1), QUARTER, up),
                raised(get(q + 2), QUARTER, up), raised(get(q + 3), QUARTER, up));
        }
    }
    for (; m < n; m *= 4) {
        const uint32_t step = n / (2 * m);
        for (uint32_t *q = z; q < end; q += 4 * m) {
            butterfly(q, m, scaled(get(q), QUARTER), scaled(get(q + m), QUARTER), scaled(get(q + 2 * m), QUARTER),
                scaled(get(q + 3 * m), QUARTER));
        }
        const int16_t *once = twiddles, *twice = twiddles, *thrice = twiddles;
        for (uint32_t k = 1; k < m; ++k) {
            once += step;
            twice += 2 * step;
            thrice += 3 * step;
            const pair_t s = factor_at(once), t = factor_at(twice), u = factor_at(thrice);
            for (uint32_t *q = z + k; q < end; q += 4 * m) {
                const pair_t f = scaled(get(q), QUARTER), a = times(scaled(get(q + m), QUARTER), s);
                const pair_t b = times(scaled(get(q + 2 * m), QUARTER), t),
                    c = times(scaled(get(q + 3 * m), QUARTER), u);
                butterfly(q, m, f, a, b, c);
            }
        }
    }
}

// Complex numbers z[0..n-1] to the squares of the n + 1 bins of 2 * n real samples, in their place.
static void energies(const int16_t *twiddles, uint32_t *z, uint32_t n) {
    const pair_t first = scaled(get(z), HALF);
    const int32_t r = real(first), i = imaginary(first);
    z[0] = energy(2 * (r + i), 0);
    z[n] = energy(2 * (r - i), 0);
    for (uint32_t *p = z + 1, *q = z + n - 1; p <= q; ++p, --q, twiddles += 2) {
        const pair_t a = scaled(get(p), HALF), b = scaled_conjugate(get(q), HALF), sum = add(a, b), apart = sub(a, b),
            t = factor_at(twiddles);
        const int32_t tr = real_product(apart, t) >> 15, ti = imaginary_product(apart, t) >> 15;
        *p = energy(real(sum) + tr, imaginary(sum) + ti);
        *q = energy(real(sum) - tr, ti - imaginary(sum));
    }
}

#endif

static uint32_t spectrum(const mica_pcan_s8_t *p, const int16_t *x, uint32_t *z) {
    const uint32_t n = p->fft / 2u, up = take(p, x, z);
    transform(p->twiddles, z, n, up);
    energies(p->twiddles + 2 * n, z, n);
    return up;
}

#ifdef __ARM_ARCH_6M__
#define root mica_pcan_root
#else
// Of 30 to 32 bits, rounded down: a line, of which Newton's method makes the root or one more.
static ALWAYS_INLINE uint32_t root_of_word(uint32_t v) {
    uint32_t r = ((v >> 16) * 11 >> 4) + 22480;
    r = (r + v / r) >> 1;
    r = (r + v / r) >> 1;
    return r > 0xffff || r * r > v ? r - 1 : r;
}

// From the root of the upper word that of two, rounded down, by one division (Zimmermann, Karatsuba Square Root, 1999).
static uint32_t root(uint64_t v) {
    uint32_t high = (uint32_t)(v >> 32), low = (uint32_t)v, up = 0;
    if (!high) {
        if (!low) {
            return 0;
        }
        high = low;
        low = 0;
        up = 32;
    }
    const uint32_t more = (32 - mica_pcan_bit_length(high)) & ~1u;
    if (more) {
        high = high << more | low >> (32 - more);
        low <<= more;
        up += more;
    }
    const uint32_t s = root_of_word(high), t = (high - s * s) << 15 | low >> 17, q = t / s,
        left = 2 * (t - q * s) | (low >> 16 & 1);
    uint32_t r = (s << 16) + q;
    if (((uint64_t)left << 16 | (low & 0xffff)) < (uint64_t)q * q) {
        --r;
    }
    if (!up) {
        return v - (uint64_t)r * r > r && r != UINT32_MAX ? r + 1 : r;
    }
    r >>= up / 2 - 1;
    return (r >> 1) + (r & 1);
}
#endif

static int8_t rounded(int32_t v, int32_t mult, int32_t shift, int32_t zero, int32_t low, int32_t high) {
    return shift < 1 ? mica_requant_s8(v, mult, shift, zero, low, high)
        : mica_requant_fast(v, mult, shift, zero, low, high);
}

void mica_pcan_s8_c32(const mica_pcan_s8_t *p, MICA_KERNEL_ARGS) {
    if (p->twiddles[0] == INT16_MAX && p->twiddles[1] == 0) {
        mica_pcan_s8_with(p, (mica_pcan_loops_t){spectrum, root, rounded}, scratch, row_begin, row_end);
    } else {
        mica_pcan_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
    }
}

#endif

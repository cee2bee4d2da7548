// From sound to features as TensorFlow Lite Micro's front end for speech has them; contract in mica_kernels.h,
// arithmetic in SPEC.md.
#include "pcan.h"
#ifndef MICA_WITHOUT_PCAN_S8

static bool numbers_fit(const mica_pcan_s8_t *p) {
    const uint32_t one = 1 << MICA_PCAN_BITS;
    return p->even <= one && p->odd <= one && p->least <= one && p->places <= 16 && p->snr_shift <= 31
        && p->correction >= -31 && p->correction <= 31 && p->log_places <= 10 && p->act_min <= p->act_max
        && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN && p->shift <= MICA_SHIFT_MAX;
}

mica_status_t mica_pcan_s8_check(const mica_pcan_s8_t *p, const char **what) {
    *what = "the FFT is no power of two from 32 to 2048, or shorter than a frame";
    if (p->fft < 32 || p->fft > MICA_PCAN_MOST_POINTS || (p->fft & (p->fft - 1)) || !p->frame || p->frame > p->fft) {
        return MICA_ERR_SHAPE;
    }
    *what = "the frames are not those of the samples";
    if (!p->hop || !p->frames || p->samples < p->frame || p->frames != 1 + (p->samples - p->frame) / p->hop
        || p->samples > MICA_MAX_BYTES / 2) {
        return MICA_ERR_SHAPE;
    }
    *what = "a dimension is 0 or too large";
    if (!p->bands || p->n_gains > MICA_MAX_BYTES / 4 || ((uint64_t)p->frames + 4) * p->bands > MICA_MAX_BYTES) {
        return MICA_ERR_SHAPE;
    }
    *what = "a factor or shift is out of its range";
    return numbers_fit(p) ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_pcan_s8_rows(const mica_pcan_s8_t *p) {
    (void)p;
    return 1;  // a frame's noise is that of all frames before it
}

uint32_t mica_pcan_s8_scratch_bytes(const mica_pcan_s8_t *p) {
    return 4 * (p->fft / 2u + 1 + p->bands);
}

mica_status_t mica_pcan_s8_check_constants(const mica_pcan_s8_t *p, const char **what) {
    if (((uintptr_t)p->window | (uintptr_t)p->twiddles | (uintptr_t)p->filters | (uintptr_t)p->gains | (uintptr_t)p->lut
            | (uintptr_t)p->logs) & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    uint32_t n = 0;
    for (uint32_t b = 0; b <= p->bands; ++b) {
        const uint32_t first = p->filters[2 * b], width = p->filters[2 * b + 1];
        if (first + width > p->fft / 2u + 1 || width > p->n_gains - n) {
            *what = "a filter is none of the bins and gains";
            return MICA_ERR_RANGE;
        }
        n += width;
    }
    if (n != p->n_gains) {
        *what = "the filters' gains are not all that there are";
        return MICA_ERR_RANGE;
    }
    return MICA_OK;
}

// The lower 16 bits, with their sign.
static int32_t half_word(int32_t v) {
    return (int32_t)((((uint32_t)v + 0x8000u) & 0xffffu)) - 0x8000;
}

// v * 2^-15, halves up.
static int32_t rounded(int32_t v) {
    return (v + 0x4000) >> 15;
}

// A complex number in a word: two int16.
typedef struct {
    int32_t r, i;
} pair_t;

static pair_t get(const uint32_t *z) {
    const pair_t v = {half_word((int32_t)(*z & 0xffffu)), half_word((int32_t)(*z >> 16))};
    return v;
}

static void put(uint32_t *z, int32_t r, int32_t i) {
    *z = ((uint32_t)r & 0xffffu) | (uint32_t)i << 16;
}

static pair_t scaled(const uint32_t *z, int32_t factor) {
    const pair_t v = get(z), w = {rounded(v.r * factor), rounded(v.i * factor)};
    return w;
}

static pair_t times(pair_t v, const int16_t *t) {
    const pair_t w = {rounded(v.r * t[0] - v.i * t[1]), rounded(v.r * t[1] + v.i * t[0])};
    return w;
}

// Where the next of n sample pairs stands before the transform: digits of base 4 in another order, the last of base 2
// where n is no power of four.
static uint32_t place_behind(uint32_t place, uint32_t n) {
    uint32_t digit = n >> 2;
    for (; digit && (place & 3 * digit) == 3 * digit; digit >>= 2) {
        place -= 3 * digit;
    }
    return place + (digit ? digit : 1);
}

static void transform(const int16_t *twiddles, uint32_t *z, uint32_t n) {
    uint32_t m = 1;
    if (mica_pcan_bit_length(n) % 2 == 0) {  // no power of four
        for (uint32_t k = 0; k < n; k += 2) {
            const pair_t a = scaled(z + k, 16383), b = times(scaled(z + k + 1, 16383), twiddles);
            put(z + k, a.r + b.r, a.i + b.i);
            put(z + k + 1, a.r - b.r, a.i - b.i);
        }
        m = 2;
    }
    for (; m < n; m *= 4) {
        const uint32_t step = n / (4 * m);
        for (uint32_t k = 0; k < m; ++k) {
            const int16_t *t = twiddles + 2 * k * step;
            for (uint32_t *q = z + k; q < z + n; q += 4 * m) {
                const pair_t f = scaled(q, 8191), a = times(scaled(q + m, 8191), t);
                const pair_t b = times(scaled(q + 2 * m, 8191), t + 2 * k * step);
                const pair_t c = times(scaled(q + 3 * m, 8191), t + 4 * k * step);
                const pair_t low = {f.r - b.r, f.i - b.i}, high = {f.r + b.r, f.i + b.i};
                const pair_t sum = {a.r + c.r, a.i + c.i}, diff = {a.r - c.r, a.i - c.i};
                put(q, high.r + sum.r, high.i + sum.i);
                put(q + m, low.r + diff.i, low.i - diff.r);
                put(q + 2 * m, high.r - sum.r, high.i - sum.i);
                put(q + 3 * m, low.r - diff.i, low.i + diff.r);
            }
        }
    }
}

static uint32_t energy(int32_t r, int32_t i) {
    r = half_word(r);
    i = half_word(i);
    return (uint32_t)(r * r) + (uint32_t)(i * i);
}

// Complex numbers z[0..n-1] to the squares of the n + 1 bins of 2 * n real samples, in their place.
static void energies(const int16_t *twiddles, uint32_t *z, uint32_t n) {
    const pair_t first = scaled(z, 16383);
    z[0] = energy(first.r + first.i, 0);
    for (uint32_t k = 1; k <= n / 2; ++k) {
        const pair_t a = scaled(z + k, 16383), c = get(z + n - k);
        const pair_t b = {rounded(c.r * 16383), rounded(-c.i * 16383)};
        const pair_t sum = {a.r + b.r, a.i + b.i}, diff = {a.r - b.r, a.i - b.i},
            t = times(diff, twiddles + 2 * (k - 1));
        z[k] = energy((sum.r + t.r) >> 1, (sum.i + t.i) >> 1);
        z[n - k] = energy((sum.r - t.r) >> 1, (t.i - sum.i) >> 1);
    }
    z[n] = energy(first.r - first.i, 0);
}

// The frame times the window, shifted up as far as it goes, as pairs in the transform's order. Returns the shift.
static uint32_t take(const mica_pcan_s8_t *p, const int16_t *x, uint32_t *z) {
    const uint32_t n = p->fft / 2u;
    int32_t most = 0;
    for (uint32_t k = 0, place = 0; k < n; ++k, place = place_behind(place, n)) {
        int32_t v[2] = {0, 0};
        for (uint32_t j = 0; j < 2 && 2 * k + j < p->frame; ++j) {
            const int32_t u = (x[2 * k + j] * p->window[2 * k + j]) >> 12, size = u < 0 ? -u : u;
            most = size > most ? size : most;
            v[j] = u > INT16_MAX ? INT16_MAX : u < INT16_MIN ? INT16_MIN : u;
        }
        put(z + place, v[0], v[1]);
    }
    const uint32_t bits = mica_pcan_bit_length((uint32_t)most), up = bits < 15 ? 15 - bits : 0;
    for (uint32_t k = 0; up && k < n; ++k) {
        const pair_t v = get(z + k);
        put(z + k, v.r * (1 << up), v.i * (1 << up));
    }
    return up;
}

// Digit by digit, of which 30 have a rest of 32 bits.
uint32_t mica_pcan_root(uint64_t v) {
    const uint32_t high = (uint32_t)(v >> 32);
    const uint32_t bits = high ? 32 + mica_pcan_bit_length(high) : mica_pcan_bit_length((uint32_t)v);
    uint32_t digits = (bits + 1) / 2, r = 0;
    if (digits - 1 < 30) {
        const uint64_t left = v << (64 - 2 * digits);
        uint32_t word = (uint32_t)(left >> 32), next = (uint32_t)left, rest = 0;
        for (; digits; --digits) {
            rest = rest << 2 | word >> 30;
            word = word << 2 | next >> 30;
            next <<= 2;
            r <<= 1;
            if (rest > 2 * r) {
                rest -= 2 * r + 1;
                ++r;
            }
        }
        return rest > r ? r + 1 : r;
    }
    uint64_t rest = 0;
    for (; digits; --digits) {
        rest = rest << 2 | (v >> (2 * digits - 2) & 3);
        r <<= 1;
        if (rest > 2 * (uint64_t)r) {
            rest -= 2 * (uint64_t)r + 1;
            ++r;
        }
    }
    return rest > r && r != UINT32_MAX ? r + 1 : r;
}

static uint32_t spectrum(const mica_pcan_s8_t *p, const int16_t *x, uint32_t *z) {
    const uint32_t n = p->fft / 2u, up = take(p, x, z);
    transform(p->twiddles, z, n);
    energies(p->twiddles + 2 * n, z, n);
    return up;
}

void mica_pcan_s8_ref(const mica_pcan_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_pcan_s8_with(p, (mica_pcan_loops_t){spectrum, mica_pcan_root, mica_requant_s8}, scratch, row_begin, row_end);
}

#endif

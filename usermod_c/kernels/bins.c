// How many bits a number has, and from a frame to the squares of its bins, for log_mel_s8, pcen_s8 and axes_s8;
// contract in log_mel.h, arithmetic in SPEC.md, log_mel_s8.
#include "log_mel.h"
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8) || !defined(MICA_WITHOUT_AXES_S8) \
    || !defined(MICA_WITHOUT_PCAN_S8)

int32_t mica_spectrum_bits(uint32_t v) {
    #ifdef __ARM_FEATURE_CLZ
    return v ? 32 - __builtin_clz(v) : 0;
    #else
    static const uint8_t few[16] = {0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4};
    int32_t n = 0;
    if (v >> 16) {
        v >>= 16;
        n = 16;
    }
    if (v >> 8) {
        v >>= 8;
        n += 8;
    }
    if (v >> 4) {
        v >>= 4;
        n += 4;
    }
    return n + few[v];
    #endif
}

#endif
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8) || !defined(MICA_WITHOUT_AXES_S8)

#include "requant.h"

#define PART_BITS 16  // of parts of complex numbers before a stage
#define BIN_BITS 17   // of parts of a bin before they are squared, two of them behind the point
#define TWIDDLE_LIMIT ((1 << 28) + (1 << 15))  // cos^2 + sin^2 in units of 2^-14, each rounded

// sqrt((32 + i) * 2^41) to the nearest integer, and log2((64 + i) / 64) * 2^16 as mica_log2 has it.
static const uint32_t roots[97] = {
    8388608, 8518672, 8646779, 8773016, 8897462, 9020192, 9141274, 9260772, 9378749, 9495260, 9610358, 9724094, 9836515,
    9947665, 10057588, 10166322, 10273905, 10380373, 10485760, 10590098, 10693419, 10795751, 10897121, 10997558,
    11097085, 11195728, 11293509, 11390451, 11486575, 11581900, 11676448, 11770236, 11863283, 11955606, 12047221,
    12138145, 12228392, 12317979, 12406919, 12495225, 12582912, 12669992, 12756478, 12842381, 12927713, 13012486,
    13096710, 13180396, 13263554, 13346194, 13428325, 13509957, 13591098, 13671758, 13751945, 13831667, 13910933,
    13989749, 14068123, 14146064, 14223577, 14300670, 14377350, 14453623, 14529495, 14604974, 14680064, 14754772,
    14829104, 14903065, 14976661, 15049897, 15122778, 15195310, 15267497, 15339344, 15410857, 15482039, 15552895,
    15623431, 15693649, 15763554, 15833150, 15902442, 15971434, 16040128, 16108530, 16176643, 16244470, 16312014,
    16379281, 16446272, 16512991, 16579442, 16645628, 16711551, 16777216,
};
const uint32_t mica_spectrum_logs[65] = {
    0, 1465, 2909, 4331, 5731, 7112, 8472, 9813, 11136, 12440, 13726, 14995,
    16248, 17484, 18704, 19908, 21097, 22272, 23432, 24578, 25710, 26829, 27935, 29028,
    30109, 31177, 32234, 33278, 34312, 35334, 36345, 37346, 38336, 39315, 40285, 41245,
    42195, 43136, 44068, 44990, 45904, 46808, 47704, 48592, 49472, 50343, 51207, 52062,
    52910, 53751, 54584, 55410, 56228, 57040, 57844, 58642, 59433, 60218, 60996, 61768,
    62534, 63293, 64047, 64794, 65536,
};

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

mica_status_t mica_spectrum_check_turns(const int16_t *window, uint32_t frame, const int16_t *twiddles, uint32_t fft,
    const char **what) {
    for (uint32_t i = 0; i < frame; ++i) {
        if (window[i] == INT16_MIN) {
            *what = "the window is -32768 somewhere";
            return MICA_ERR_RANGE;
        }
    }
    for (uint32_t k = 0; k < fft + 2u; k += 2) {
        const int32_t c = twiddles[k], s = twiddles[k + 1];
        if (c == INT16_MIN || s == INT16_MIN || c * c + s * s > TWIDDLE_LIMIT) {
            *what = "a twiddle factor is longer than 1";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

bool mica_spectrum_is_circle(const int16_t *twiddles, uint32_t fft) {
    const uint32_t quarter = fft / 4u;
    const int16_t *low = twiddles, *high = low + 2 * quarter, *back = high;
    bool circle = low[0] == 1 << 14 && low[1] == 0;
    for (uint32_t k = 0; k <= quarter; ++k, low += 2, high += 2, back -= 2) {
        circle = circle && low[0] == high[1] && low[1] == -high[0] && low[0] == back[1] && low[1] == back[0];
    }
    return circle;
}

// From the table, linear between its entries.
int32_t mica_spectrum_log2(uint64_t v) {
    const uint32_t high = (uint32_t)(v >> 32), low = (uint32_t)v;
    int32_t b;
    uint32_t m;  // 22 places
    if (high) {
        const int32_t n = mica_spectrum_bits(high);
        b = 31 + n;
        m = n > 22 ? high >> (n - 23) : high << (23 - n) | low >> (9 + n);
    } else {
        b = mica_spectrum_bits(low) - 1;
        m = b > 22 ? low >> (b - 22) : low << (22 - b);
    }
    const uint32_t i = m >> 16 & 63, f = m & 0xffff, *const logs = mica_spectrum_logs;
    return b * 65536 + (int32_t)(logs[i] + ((logs[i + 1] - logs[i]) * f >> 16));
}

// From the table.
uint32_t mica_spectrum_root(uint32_t v) {
    if (v == 0) {
        return 0;
    }
    const uint32_t z = (32 - (uint32_t)mica_spectrum_bits(v)) & ~1u;
    v <<= z;  // in [2^30, 2^32)
    const uint32_t i = (v >> 25) - 32, f = v >> 11 & 0x3fff;
    const uint32_t root = roots[i] + (((roots[i + 1] - roots[i]) * f + 0x2000) >> 14);
    return z ? (root + (1u << (z / 2 - 1))) >> z / 2 : root;
}

// v * 2^-s, halves up. s >= 0, v + 2^(s-1) an int32.
static int32_t down(int32_t v, int32_t s) {
    return s ? (v + (1 << (s - 1))) >> s : v;
}

// All bits of v, or of ~v where v is negative.
static uint32_t bits_of(int32_t v) {
    return (uint32_t)(v ^ (v >> 31));
}

// By how much numbers have to be shifted whose bits are `used`, so that they have `bits` bits and a sign.
static int32_t excess(uint32_t used, int32_t bits) {
    const int32_t n = mica_spectrum_bits(used) - bits;
    return n > 0 ? n : 0;
}

// Sample i, in units of 2^-15 after pre-emphasis. The sample before the first counts as the first.
static int32_t sample(const mica_log_mel_s8_t *p, uint32_t begin, uint32_t i) {
    const int16_t *x = p->x + begin + i;
    return p->preemphasis ? x[0] * 32768 - p->preemphasis * x[begin + i ? -1 : 0] : x[0];
}

// Sample i with 15 bits and a sign, times the window: less than 2^30.
static int32_t windowed(const mica_log_mel_s8_t *p, uint32_t begin, uint32_t i, int32_t s) {
    const int32_t v = sample(p, begin, i);
    return (s > 0 ? ((v >> (s - 1)) + 1) >> 1 : v) * p->window[i];
}

uint32_t mica_log_mel_sample_bits_from(const mica_log_mel_s8_t *p, uint32_t begin, uint32_t i) {
    uint32_t all = 0;
    for (; i < p->frame; ++i) {
        all |= bits_of(sample(p, begin, i));
    }
    return all;
}

uint32_t mica_log_mel_take_from(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s, uint32_t k) {
    const uint32_t half = p->fft / 2u;
    uint32_t used = 0, j = 0;
    for (uint32_t from = k, to = half >> 1; to; from >>= 1, to >>= 1) {
        j |= from & 1 ? to : 0;
    }
    for (; k < half; ++k) {
        const uint32_t i = 2 * k;
        z[2 * j] = i < p->frame ? windowed(p, begin, i, s) : 0;
        z[2 * j + 1] = i + 1 < p->frame ? windowed(p, begin, i + 1, s) : 0;
        used |= bits_of(z[2 * j]) | bits_of(z[2 * j + 1]);
        uint32_t bit = half >> 1;
        for (; j & bit; bit >>= 1) {
            j ^= bit;
        }
        j |= bit;
    }
    return used;
}

static uint32_t take(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t *exponent) {
    if (p->preemphasis) {
        const int32_t s = excess(mica_log_mel_sample_bits_from(p, begin, 0), 15);
        *exponent = s - 30;
        return mica_log_mel_take_from(p, begin, z, s, 0);
    }
    // Samples are to have 15 bits, but where products have 16, the shift behind the window makes up for that.
    const uint32_t used = mica_log_mel_take_from(p, begin, z, 0, 0);
    if (mica_spectrum_bits(used) >= PART_BITS) {
        *exponent = -15;
        return used;
    }
    const int32_t up = 15 - mica_spectrum_bits(mica_log_mel_sample_bits_from(p, begin, 0));
    for (uint32_t i = 0; i < p->fft; ++i) {
        z[i] *= 1 << up;
    }
    *exponent = -up - 15;
    return used << up;
}

// The two first stages at once. Takes the bits of z and returns those that it then has.
static uint32_t first(int32_t *z, uint32_t half, int32_t s) {
    uint32_t used = 0;
    for (int32_t *p = z; p < z + 2 * half; p += 8) {
        const int32_t ar = down(p[0], s), ai = down(p[1], s), br = down(p[2], s), bi = down(p[3], s);
        const int32_t cr = down(p[4], s), ci = down(p[5], s), dr = down(p[6], s), di = down(p[7], s);
        const int32_t sr = ar + br, si = ai + bi, tr = ar - br, ti = ai - bi;
        const int32_t ur = cr + dr, ui = ci + di, vr = cr - dr, vi = ci - di;
        p[0] = sr + ur;
        p[1] = si + ui;
        p[2] = tr + vi;
        p[3] = ti - vr;
        p[4] = sr - ur;
        p[5] = si - ui;
        p[6] = tr - vi;
        p[7] = ti + vr;
        for (uint32_t i = 0; i < 8; ++i) {
            used |= bits_of(p[i]);
        }
    }
    return used;
}

static uint32_t stage(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s) {
    const int32_t round = s ? 1 << (s - 1) : 0;
    const uint32_t step = half / h;
    uint32_t all = 0;
    for (uint32_t j = 0; j < h; ++j) {
        const int32_t c = twiddles[2 * j * step], w = twiddles[2 * j * step + 1];
        for (int32_t *p = z + 2 * j; p < z + 2 * half; p += 4 * h) {
            int32_t *q = p + 2 * h;
            const int32_t br = (q[0] + round) >> s, bi = (q[1] + round) >> s;
            const int32_t tr = (br * c + bi * w + 2048) >> 12, ti = (bi * c - br * w + 2048) >> 12;
            const int32_t ar = ((p[0] + round) >> s) * 4, ai = ((p[1] + round) >> s) * 4;
            p[0] = ar + tr;
            p[1] = ai + ti;
            q[0] = ar - tr;
            q[1] = ai - ti;
            all |= bits_of(ar + tr) | bits_of(ai + ti) | bits_of(ar - tr) | bits_of(ai - ti);
        }
    }
    return all;
}

// A Fourier transform in place, of `half` complex numbers in bit-reversed order, whose bits are `used`. Numbers are
// shifted to the right before each stage as far as it needs; each leaves two places more. Returns what the exponent
// grows by, and used.
static int32_t transform(
    const mica_log_mel_loops_t *loops, const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t *used) {
    int32_t s = excess(*used, PART_BITS), exponent = s;
    *used = loops->first(z, half, s);
    for (uint32_t h = 4; h < half; h *= 2) {
        s = excess(*used, PART_BITS);
        exponent += s - 2;
        *used = loops->stage(twiddles, z, half, h, s);
    }
    return exponent;
}

// Eight times bin k of the real samples, from bins k and half - k of the complex ones, a and b, into z.
static uint32_t bin(int32_t *z, int32_t ar, int32_t ai, int32_t br, int32_t bi, const int16_t *twiddle) {
    const int32_t c = twiddle[0], w = twiddle[1], pr = ai + bi, pi = br - ar;
    z[0] = (ar + br) * 4 + ((pr * c + pi * w + 2048) >> 12);
    z[1] = (ai - bi) * 4 + ((pi * c - pr * w + 2048) >> 12);
    return bits_of(z[0]) | bits_of(z[1]);
}

// (v / 4)^2 of a part, rounded down somewhat. |v| <= 2^17.
static uint32_t square_of(int32_t v, int32_t s) {
    const int32_t shifted = down(v, s);
    const uint32_t n = (uint32_t)(shifted < 0 ? -shifted : shifted), high = n >> 2;
    return high * high + (high * (n & 3) >> 1);
}

static uint32_t split(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s) {
    uint32_t used = 0;
    for (uint32_t k = 1, m = half - 1; k <= m; ++k, --m) {
        int32_t *a = z + 2 * k, *b = z + 2 * m;
        const int32_t ar = down(a[0], s), ai = down(a[1], s), br = down(b[0], s), bi = down(b[1], s);
        used |= bin(a, ar, ai, br, bi, twiddles + 2 * k);
        used |= bin(b, br, bi, ar, ai, twiddles + 2 * m);
    }
    return used;
}

static void squares(int32_t *z, uint32_t k, uint32_t end, int32_t s) {
    uint32_t *bins = (uint32_t *)z;
    for (; k < end; ++k) {
        bins[k] = square_of(z[2 * k], s) + square_of(z[2 * k + 1], s);
    }
}

// Of the bins that filters hold, powers or 2^8 times the sizes, in their place. Returns the exponent's growth.
static int32_t bins_of(const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, int32_t *z, uint32_t used) {
    const uint32_t half = p->fft / 2u, begin = p->bin_begin, bins_end = p->bin_end;
    int32_t s = excess(used, PART_BITS - 1), exponent = s - 1;
    const int32_t head = down(z[0], s), tail = down(z[1], s);
    z[0] = (head + tail) * 8;  // of bins 0 and half only these parts are left
    z[1] = (head - tail) * 8;
    used = bits_of(z[0]) | bits_of(z[1]) | loops->split(p->twiddles, z, half, s);
    s = excess(used, BIN_BITS);
    uint32_t *bins = (uint32_t *)z;
    const uint32_t end = square_of(z[1], s);
    bins[0] = square_of(z[0], s);
    const uint32_t first = begin ? begin : 1, last = smaller(bins_end, half);
    if (first < last) {
        loops->squares(z, first, last, s);
    }
    bins[half] = end;
    if (!(p->flags & MICA_LOG_MEL_POWER) && begin < bins_end) {
        loops->roots(bins + begin, bins_end - begin, roots);
    }
    return exponent + s;
}

static bool is_silent(const int32_t *z, uint32_t n) {
    int32_t all = 0;
    for (; n; --n) {
        all |= *z++;
    }
    return all == 0;
}

int32_t mica_spectrum(const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, uint32_t begin, int32_t *z) {
    int32_t exponent;
    uint32_t used = loops->take(p, begin, z, &exponent);
    if (used == 0 && is_silent(z, p->fft)) {  // so are all bins; the exponent is what they would have
        for (uint32_t h = 4; h < p->fft / 2u; h *= 2) {
            exponent -= 2;
        }
        return exponent - 1;
    }
    exponent += transform(loops, p->twiddles, z, p->fft / 2u, &used);
    return exponent + bins_of(p, loops, z, used);
}

static uint64_t band(const uint32_t *bins, const uint16_t *gains, uint32_t n) {
    uint64_t sum = 0;
    for (; n; --n, ++bins) {
        const uint32_t w = *gains++;
        sum += (*bins >> 16) * w + ((*bins & 0xffff) * w >> 16);
    }
    return sum;
}

static void take_roots(uint32_t *v, uint32_t n, const uint32_t *table) {
    (void)table;
    for (uint32_t k = 0; k < n; ++k) {
        v[k] = mica_spectrum_root(v[k]);
    }
}

static void rounded(const mica_log_mel_s8_t *p, const int32_t *v, uint32_t c, uint32_t n, int8_t *y) {
    for (const uint32_t end = c + n; c < end; ++c) {
        y[c] = mica_requant_s8(*v++ + p->bias[c], p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
    }
}

static int32_t dct_of(const int32_t *log, const int16_t *dct, uint32_t n) {
    int32_t high = 0, low = 0;
    for (uint32_t i = 0; i < n; ++i) {
        high += (log[i] >> 12) * dct[i];
        low += (log[i] & 0xfff) * dct[i];
    }
    return high * 2 + (low >> 11);
}

const mica_log_mel_loops_t mica_log_mel_loops = {
    take, first, stage, split, squares, take_roots, band, dct_of, rounded, NULL};

#endif

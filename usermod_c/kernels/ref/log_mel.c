// From sound to rows of logarithms of band energies; contract in mica_kernels.h, arithmetic in SPEC.md.
#include "log_mel.h"
#ifdef MICA_WITH_SPECTRUM

#include "requant.h"

#define FLOOR_BITS 62
#define PART_BITS 16  // of parts of complex numbers before a stage
#define BIN_BITS 17   // of parts of a bin before they are squared, two of them behind the point
#define TWIDDLE_LIMIT ((1 << 28) + (1 << 15))  // cos^2 + sin^2 in units of 2^-14, each rounded
#define DCT_LIMIT (1 << 18)
#define BIAS_LIMIT (1 << 29)

// sqrt((32 + i) * 2^41) to the nearest integer, and log2((64 + i) / 64) * 2^16 as mica_log2 has it.
static const uint32_t roots[97] = {
    8388608, 8518672, 8646779, 8773016, 8897462, 9020192, 9141274, 9260772, 9378749, 9495260, 9610358, 9724094,
    9836515, 9947665, 10057588, 10166322, 10273905, 10380373, 10485760, 10590098, 10693419, 10795751, 10897121, 10997558,
    11097085, 11195728, 11293509, 11390451, 11486575, 11581900, 11676448, 11770236, 11863283, 11955606, 12047221, 12138145,
    12228392, 12317979, 12406919, 12495225, 12582912, 12669992, 12756478, 12842381, 12927713, 13012486, 13096710, 13180396,
    13263554, 13346194, 13428325, 13509957, 13591098, 13671758, 13751945, 13831667, 13910933, 13989749, 14068123, 14146064,
    14223577, 14300670, 14377350, 14453623, 14529495, 14604974, 14680064, 14754772, 14829104, 14903065, 14976661, 15049897,
    15122778, 15195310, 15267497, 15339344, 15410857, 15482039, 15552895, 15623431, 15693649, 15763554, 15833150, 15902442,
    15971434, 16040128, 16108530, 16176643, 16244470, 16312014, 16379281, 16446272, 16512991, 16579442, 16645628, 16711551,
    16777216,
};
static const uint32_t logs[65] = {
    0, 1465, 2909, 4331, 5731, 7112, 8472, 9813, 11136, 12440, 13726, 14995,
    16248, 17484, 18704, 19908, 21097, 22272, 23432, 24578, 25710, 26829, 27935, 29028,
    30109, 31177, 32234, 33278, 34312, 35334, 36345, 37346, 38336, 39315, 40285, 41245,
    42195, 43136, 44068, 44990, 45904, 46808, 47704, 48592, 49472, 50343, 51207, 52062,
    52910, 53751, 54584, 55410, 56228, 57040, 57844, 58642, 59433, 60218, 60996, 61768,
    62534, 63293, 64047, 64794, 65536,
};

static bool is_power_of_two(uint32_t v) {
    return v && (v & (v - 1)) == 0;
}

// Where the first frame begins.
static uint32_t first_sample(const mica_log_mel_s8_t *p) {
    return p->flags & MICA_LOG_MEL_BEFORE ? 1 : 0;
}

mica_status_t mica_log_mel_s8_check(const mica_log_mel_s8_t *p, const char **what) {
    *what = "the FFT is no power of two from 32 to 2048, or shorter than a frame";
    if (!is_power_of_two(p->fft) || p->fft < 32 || p->fft > MICA_LOG_MEL_MOST_POINTS || !p->frame || p->frame > p->fft) {
        return MICA_ERR_SHAPE;
    }
    *what = "the frames are not those of the samples";
    const uint32_t first = first_sample(p);
    if (!p->hop || !p->frames || !p->samples) {
        return MICA_ERR_SHAPE;
    }
    if (p->flags & MICA_LOG_MEL_PAD) {
        // Where it ends behind the first sample; at most one sample less than all may lie before them, and behind them.
        const uint64_t end = (uint64_t)(p->frames - 1) * p->hop + p->frame;
        if (p->pad >= p->samples || end >= (uint64_t)p->pad + 2 * (uint64_t)p->samples) {
            return MICA_ERR_SHAPE;
        }
    } else if (p->samples < first + p->frame || p->frames != 1 + (p->samples - first - p->frame) / p->hop) {
        return MICA_ERR_SHAPE;
    }
    *what = "a dimension is 0 or too large, or there are other columns than bands";
    if (!p->bands || !p->out_n || p->n_gains > MICA_MAX_BYTES / 2 || (uint64_t)p->frames * p->out_n > MICA_MAX_BYTES
        || (uint64_t)p->bands * p->out_n > MICA_MAX_BYTES / 2 || (!(p->flags & MICA_LOG_MEL_DCT) && p->bands != p->out_n)) {
        return MICA_ERR_SHAPE;
    }
    *what = "flags, pad, pre-emphasis, floor, or a factor of requantisation is out of its range";
    bool sound = p->flags < 2 * MICA_LOG_MEL_MIRROR && p->preemphasis <= 1 << 15 && p->floor >= 0
        && (p->flags & MICA_LOG_MEL_PAD ? !p->preemphasis && !first : !p->pad && !(p->flags & MICA_LOG_MEL_MIRROR))
        && p->floor_exponent >= -64 && p->floor_exponent < 64 && p->act_min <= p->act_max
        && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN && p->shift <= MICA_SHIFT_MAX;
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

size_t mica_log_mel_s8_x_bytes(const mica_log_mel_s8_t *p) {
    return (size_t)p->samples * 2;
}

size_t mica_log_mel_s8_y_bytes(const mica_log_mel_s8_t *p) {
    return (size_t)p->frames * p->out_n;
}

size_t mica_log_mel_s8_dct_bytes(const mica_log_mel_s8_t *p) {
    return p->flags & MICA_LOG_MEL_DCT ? (size_t)p->bands * p->out_n * 2 : 0;
}

uint32_t mica_log_mel_s8_scratch_bytes(const mica_log_mel_s8_t *p) {
    const uint32_t after = p->fft / 2u + 1 + p->bands, copy = p->flags & MICA_LOG_MEL_PAD ? (p->frame + 1u) / 2 : 0;
    return 4 * (after > p->fft + copy ? after : p->fft + copy);
}

uint32_t mica_log_mel_s8_rows(const mica_log_mel_s8_t *p) {
    return p->frames;
}

mica_status_t mica_spectrum_check_turns(const int16_t *window, uint32_t frame, const int16_t *twiddles, uint32_t fft, const char **what) {
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

mica_status_t mica_log_mel_s8_check_constants(const mica_log_mel_s8_t *p, const char **what) {
    if (((uintptr_t)p->window | (uintptr_t)p->twiddles | (uintptr_t)p->filters | (uintptr_t)p->gains | (uintptr_t)p->dct) & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    const mica_status_t turns = mica_spectrum_check_turns(p->window, p->frame, p->twiddles, p->fft, what);
    if (turns != MICA_OK) {
        return turns;
    }
    uint32_t n = 0;
    for (uint32_t b = 0; b < p->bands; ++b) {
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
    for (uint32_t c = 0; c < p->out_n; ++c) {
        uint32_t sum = 0;
        for (uint32_t b = 0; b < p->bands && p->flags & MICA_LOG_MEL_DCT && sum <= DCT_LIMIT; ++b) {
            const int32_t v = p->dct[(size_t)c * p->bands + b];
            sum += (uint32_t)(v < 0 ? -v : v);
        }
        if (sum > DCT_LIMIT || p->bias[c] <= -BIAS_LIMIT || p->bias[c] >= BIAS_LIMIT) {
            *what = "a sum of the DCT can overflow";
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

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Filter b: its bins are within those that there are whatever the table says, which may be in flash that has changed since it was checked.
typedef struct {
    uint32_t begin, end;
} filter_t;

static filter_t filter(const mica_log_mel_s8_t *p, uint32_t b) {
    const uint32_t bins = p->fft / 2u + 1, begin = smaller(p->filters[2 * b], bins);
    return (filter_t){begin, begin + smaller(p->filters[2 * b + 1], bins - begin)};
}

void mica_log_mel_s8_prepare(mica_log_mel_s8_t *p) {
    p->bin_begin = (uint16_t)(p->fft / 2u + 1);
    p->bin_end = 0;
    for (uint32_t b = 0; b < p->bands; ++b) {
        const filter_t one = filter(p, b);
        if (one.begin < one.end) {
            p->bin_begin = (uint16_t)smaller(p->bin_begin, one.begin);
            p->bin_end = one.end > p->bin_end ? (uint16_t)one.end : p->bin_end;
        }
    }
    p->flags |= mica_spectrum_is_circle(p->twiddles, p->fft) ? MICA_LOG_MEL_CIRCLE : 0;
}

int32_t mica_spectrum_bits(uint32_t v) {
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
    const uint32_t i = m >> 16 & 63, f = m & 0xffff;
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
    // Samples are to have 15 bits, but where products have 16 as they are, the shift behind the window makes up for that.
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

// A Fourier transform in place, of `half` complex numbers in bit-reversed order, whose bits are `used`. Numbers are shifted to the
// right before each stage as far as it needs; each leaves two places more. Returns what the exponent grows by, and used.
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

// Of the bins that filters hold, powers or 2^8 times the sizes, in the place of the complex numbers. Returns what the exponent grows by.
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

int32_t mica_spectrum(const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, uint32_t begin, int32_t *z) {
    int32_t exponent;
    uint32_t used = loops->take(p, begin, z, &exponent);
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
    take, first, stage, split, squares, take_roots, band, dct_of, rounded};

// Logarithms of the bands' sums. exponent: bins count in 2^exponent. floor: in 2^floor_exponent. minus: taken off each.
static void take_logs(const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, const uint32_t *bins, int32_t exponent,
    uint64_t floor, int32_t minus, int32_t *log) {
    int32_t up = p->floor_exponent - exponent, much = 0;
    if (floor) {  // where it would need more bits than it may have, the sums go down instead
        const uint32_t high = (uint32_t)(floor >> 32);
        much = up + (high ? 32 + mica_spectrum_bits(high) : mica_spectrum_bits((uint32_t)floor)) - FLOOR_BITS;
        much = much > 0 ? much : 0;
        up -= much;
        floor = up >= 0 ? floor << up : up > -64 ? floor >> -up : 0;
    }
    exponent += much;
    const uint16_t *gain = p->gains;
    const bool limit = p->flags & MICA_LOG_MEL_LIMIT;
    const int32_t more = exponent * 65536 - minus;
    uint32_t gains = p->n_gains;
    for (uint32_t b = 0, bands = p->bands; b < bands; ++b) {
        const filter_t one = filter(p, b);
        const uint32_t width = smaller(one.end - one.begin, gains);
        uint64_t sum = loops->band(bins + one.begin, gain, width);
        gain += width;
        gains -= width;
        if (much) {
            sum = much < 64 ? sum >> much : 0;
        }
        if (limit) {
            sum = sum < floor ? floor : sum;
        } else {
            sum += floor;
        }
        log[b] = mica_spectrum_log2(sum ? sum : 1) + more;
    }
}

// The samples of frame r, which lies partly outside of x, one behind the other.
static void copy_frame(const mica_log_mel_s8_t *p, uint32_t r, int16_t *to) {
    const int32_t last = (int32_t)p->samples - 1;
    int32_t at = (int32_t)(r * p->hop) - p->pad;
    for (uint32_t i = 0; i < p->frame; ++i, ++at) {
        int32_t from = at;
        if (p->flags & MICA_LOG_MEL_MIRROR) {
            from = at < 0 ? -at : at > last ? 2 * last - at : at;
        }
        to[i] = from < 0 || from > last ? 0 : p->x[from];
    }
}

void mica_log_mel_s8_with(
    const mica_log_mel_s8_t *whole, const mica_log_mel_loops_t *loops, int32_t *z, uint32_t row_begin, uint32_t row_end) {
    const mica_log_mel_s8_t *p = whole;
    mica_log_mel_s8_t edge;
    const uint32_t half = p->fft / 2u;
    const bool power = p->flags & MICA_LOG_MEL_POWER;
    int32_t *log = z + half + 1, minus = 0;
    uint64_t floor = (uint64_t)p->floor;
    if (p->flags & MICA_LOG_MEL_PEAK) {
        int32_t peak = 1;
        for (uint32_t i = 0; i < p->samples; ++i) {
            peak = p->x[i] > peak ? p->x[i] : peak;
        }
        minus = mica_spectrum_log2((uint64_t)peak) * (power ? 2 : 1);
        floor *= (uint64_t)peak * (power ? (uint64_t)peak : 1);
    }
    for (uint32_t r = row_begin; r < row_end; ++r) {
        uint32_t begin = r * p->hop + first_sample(p) - p->pad;
        if (p->flags & MICA_LOG_MEL_PAD) {
            p = whole;
            if (r * p->hop < p->pad || begin + p->frame > p->samples) {
                int16_t *samples = (int16_t *)(z + p->fft);
                copy_frame(p, r, samples);
                edge = *p;
                edge.x = samples;
                p = &edge;
                begin = 0;
            }
        }
        const int32_t exponent = mica_spectrum(p, loops, begin, z);
        take_logs(p, loops, (const uint32_t *)z, power ? 2 * exponent : exponent - 8, floor, minus, log);
        int8_t *y = p->y + (size_t)r * p->out_n;
        if (!(p->flags & MICA_LOG_MEL_DCT)) {
            loops->round(p, log, 0, p->out_n, y);
            continue;
        }
        for (uint32_t c = 0; c < p->out_n; ++c) {
            const int32_t v = loops->dct(log, p->dct + (size_t)c * p->bands, p->bands);
            loops->round(p, &v, c, 1, y);
        }
    }
}

void mica_log_mel_s8_ref(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_log_mel_s8_with(p, &mica_log_mel_loops, scratch, row_begin, row_end);
}

#endif

// From sound to rows of logarithms of band energies; contract in mica_kernels.h, arithmetic in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_LOG_MEL_S8

#include "requant.h"

#define LARGEST_FLOOR ((uint64_t)1 << 62)
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

mica_status_t mica_log_mel_s8_check(const mica_log_mel_s8_t *p, const char **what) {
    *what = "the FFT is no power of two from 32 to 2048, or shorter than a frame";
    if (!is_power_of_two(p->fft) || p->fft < 32 || p->fft > MICA_LOG_MEL_MOST_POINTS || !p->frame || p->frame > p->fft) {
        return MICA_ERR_SHAPE;
    }
    *what = "the frames are not those of the samples";
    if (!p->hop || !p->frames || p->samples < p->frame || p->frames != 1 + (p->samples - p->frame) / p->hop
        || p->samples > MICA_MAX_BYTES / 2) {
        return MICA_ERR_SHAPE;
    }
    *what = "a dimension is 0 or too large, or there are other columns than bands";
    if (!p->bands || !p->out_n || p->n_gains > MICA_MAX_BYTES / 2 || (uint64_t)p->frames * p->out_n > MICA_MAX_BYTES
        || (uint64_t)p->bands * p->out_n > MICA_MAX_BYTES / 2 || (!(p->flags & MICA_LOG_MEL_DCT) && p->bands != p->out_n)) {
        return MICA_ERR_SHAPE;
    }
    *what = "flags, pre-emphasis, floor, or a factor of requantisation is out of its range";
    bool sound = p->flags < 2 * MICA_LOG_MEL_DCT && p->preemphasis <= 1 << 15 && p->floor >= 0
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
    return 4 * (p->fft / 2u + 1 + p->bands);
}

uint32_t mica_log_mel_s8_rows(const mica_log_mel_s8_t *p) {
    return p->frames;
}

mica_status_t mica_log_mel_s8_check_constants(const mica_log_mel_s8_t *p, const char **what) {
    if (((uintptr_t)p->window | (uintptr_t)p->twiddles | (uintptr_t)p->filters | (uintptr_t)p->gains | (uintptr_t)p->dct) & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    for (uint32_t i = 0; i < p->frame; ++i) {
        if (p->window[i] == INT16_MIN) {
            *what = "the window is -32768 somewhere";
            return MICA_ERR_RANGE;
        }
    }
    for (uint32_t k = 0; k < p->fft + 2u; k += 2) {
        const int32_t c = p->twiddles[k], s = p->twiddles[k + 1];
        if (c == INT16_MIN || s == INT16_MIN || c * c + s * s > TWIDDLE_LIMIT) {
            *what = "a twiddle factor is longer than 1";
            return MICA_ERR_RANGE;
        }
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

// How many bits v has.
static int32_t bit_length(uint32_t v) {
    int32_t n = 0;
    for (int32_t step = 16; step; step >>= 1) {
        if (v >> step) {
            v >>= step;
            n += step;
        }
    }
    return n + (int32_t)v;
}

// 2^16 * log2(v) from the table, linear between its entries. v >= 1.
static int32_t log2_of(uint64_t v) {
    const uint32_t high = (uint32_t)(v >> 32);
    const int32_t b = (high ? 32 + bit_length(high) : bit_length((uint32_t)v)) - 1;
    const uint32_t m = (uint32_t)(b > 22 ? v >> (b - 22) : v << (22 - b));  // 22 places
    const uint32_t i = m >> 16 & 63, f = m & 0xffff;
    return b * 65536 + (int32_t)(logs[i] + ((logs[i + 1] - logs[i]) * f >> 16));
}

// 2^8 * sqrt(v), rounded, from the table.
static uint32_t root_q8(uint32_t v) {
    if (v == 0) {
        return 0;
    }
    const uint32_t z = (32 - (uint32_t)bit_length(v)) & ~1u;
    v <<= z;  // in [2^30, 2^32)
    const uint32_t i = (v >> 25) - 32, f = v >> 11 & 0x3fff;
    const uint32_t root = roots[i] + (((roots[i + 1] - roots[i]) * f + 0x2000) >> 14);
    return z ? (root + (1u << (z / 2 - 1))) >> z / 2 : root;
}

// A complex number of two int16 in one word, the real part in its lower half.
static int32_t re(uint32_t v) {
    return (int16_t)(v & 0xffff);
}

static int32_t im(uint32_t v) {
    return (int16_t)(v >> 16);
}

static uint32_t complex_of(int32_t r, int32_t i) {
    return ((uint32_t)r & 0xffff) | (uint32_t)i << 16;
}

// Sample i after pre-emphasis, times the window: at most 65535 * 32767. The sample before the first counts as the first.
static int32_t windowed(const mica_log_mel_s8_t *p, uint32_t begin, uint32_t i) {
    const int16_t *x = p->x + begin + i;
    int32_t v = x[0];
    if (p->preemphasis) {
        v = (v * 32768 - p->preemphasis * x[begin + i ? -1 : 0] + (1 << 14)) >> 15;
    }
    return v * p->window[i];
}

// value * 2^-s, rounded, in [-2^14, 2^14).
static int32_t scaled(int32_t value, int32_t s) {
    if (s > 0) {
        value = (value + (1 << (s - 1))) >> s;
        return value > 16383 ? 16383 : value;
    }
    return value * (1 << -s);
}

// The frame's samples into z, two by two, in bit-reversed order, and zeros behind them. Returns s: z is samples * 2^(15-s).
static int32_t take_frame(const mica_log_mel_s8_t *p, uint32_t begin, uint32_t *z) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < p->frame; ++i) {
        const int32_t v = windowed(p, begin, i);
        used |= (uint32_t)(v ^ (v >> 31));
    }
    const int32_t s = bit_length(used) - 14;
    const uint32_t half = p->fft / 2u;
    for (uint32_t k = 0, j = 0; k < half; ++k) {
        const uint32_t i = 2 * k;
        z[j] = complex_of(i < p->frame ? scaled(windowed(p, begin, i), s) : 0,
            i + 1 < p->frame ? scaled(windowed(p, begin, i + 1), s) : 0);
        uint32_t bit = half >> 1;
        for (; j & bit; bit >>= 1) {
            j ^= bit;
        }
        j |= bit;
    }
    return s;
}

// Bits 14 and 15 of each half: whether a part of v needs more than 14, more than 15 bits with its sign.
static uint32_t size_of(uint32_t v) {
    return v ^ v << 1;
}

static int32_t halved(int32_t v) {
    return (v + 1) >> 1;
}

// The two first stages at once: parts in [-2^14, 2^14) become int16. Returns size_of() all.
static uint32_t first_stages(uint32_t *z, uint32_t half) {
    uint32_t size = 0;
    for (uint32_t *p = z; p < z + half; p += 4) {
        const int32_t sr = re(p[0]) + re(p[1]), si = im(p[0]) + im(p[1]), tr = re(p[0]) - re(p[1]), ti = im(p[0]) - im(p[1]);
        const int32_t ur = re(p[2]) + re(p[3]), ui = im(p[2]) + im(p[3]), vr = re(p[2]) - re(p[3]), vi = im(p[2]) - im(p[3]);
        p[0] = complex_of(halved(sr + ur), halved(si + ui));
        p[1] = complex_of(halved(tr + vi), halved(ti - vr));
        p[2] = complex_of(halved(sr - ur), halved(si - ui));
        p[3] = complex_of(halved(tr - vi), halved(ti + vr));
        size |= size_of(p[0]) | size_of(p[1]) | size_of(p[2]) | size_of(p[3]);
    }
    return size;
}

// A Fourier transform in place, of `half` complex numbers in bit-reversed order. Each stage is shifted to the right as far as
// it needs; returns by how many bits all of them.
static int32_t transform(const int16_t *twiddles, uint32_t *z, uint32_t half) {
    uint32_t size = first_stages(z, half);
    int32_t exponent = 1;
    for (uint32_t h = 4, step = half / 4; h < half; h *= 2, step /= 2) {
        const int32_t s = size & 0x80008000 ? 2 : size & 0x40004000 ? 1 : 0, shift = 14 + s, round = 1 << (shift - 1);
        exponent += s;
        size = 0;
        for (uint32_t j = 0; j < h; ++j) {
            const int32_t c = twiddles[2 * j * step], w = twiddles[2 * j * step + 1];
            for (uint32_t *p = z + j; p < z + half; p += 2 * h) {
                const uint32_t a = p[0], b = p[h];
                const int32_t tr = re(b) * c + im(b) * w, ti = im(b) * c - re(b) * w;
                const int32_t ar = re(a) * 16384 + round, ai = im(a) * 16384 + round;
                p[0] = complex_of((ar + tr) >> shift, (ai + ti) >> shift);
                p[h] = complex_of((ar - tr) >> shift, (ai - ti) >> shift);
                size |= size_of(p[0]) | size_of(p[h]);
            }
        }
    }
    return exponent;
}

// Bin k of the real samples, from bins k and half - k of the complex ones: 2^8 times its size, or its power.
static uint32_t bin(uint32_t a, uint32_t b, int32_t c, int32_t w, bool power) {
    const int32_t er = re(a) + re(b), ei = im(a) - im(b), pr = im(a) + im(b), pi = re(b) - re(a);
    const int32_t xr = (er * 16384 + pr * c + pi * w + 16384) >> 15, xi = (ei * 16384 + pi * c - pr * w + 16384) >> 15;
    const uint32_t square = (uint32_t)xr * (uint32_t)xr + (uint32_t)xi * (uint32_t)xi;
    return power ? square : root_q8(square);
}

// Bins 0 to half in the place of the complex numbers.
static void spectrum(const int16_t *twiddles, uint32_t *z, uint32_t half, bool power) {
    const int16_t *t = twiddles;
    const uint32_t a = z[0];
    z[0] = bin(a, a, t[0], t[1], power);
    z[half] = bin(a, a, t[2 * half], t[2 * half + 1], power);
    for (uint32_t k = 1, m = half - 1; k <= m; ++k, --m) {
        const uint32_t lower = z[k], upper = z[m];
        z[k] = bin(lower, upper, t[2 * k], t[2 * k + 1], power);
        z[m] = bin(upper, lower, t[2 * m], t[2 * m + 1], power);
    }
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Logarithms of the bands' sums. exponent: bins count in 2^exponent. floor: in 2^floor_exponent. minus: taken off each.
static void take_logs(const mica_log_mel_s8_t *p, const uint32_t *bins, int32_t exponent, uint64_t floor, int32_t minus,
    int32_t *log) {
    const int32_t up = p->floor_exponent - exponent;
    if (up < 0) {
        floor = up > -64 ? floor >> -up : 0;
    } else {
        floor = up > 62 || floor > LARGEST_FLOOR >> up ? (floor ? LARGEST_FLOOR : 0) : floor << up;
    }
    const uint16_t *gain = p->gains;
    uint32_t gains = p->n_gains;
    for (uint32_t b = 0; b < p->bands; ++b) {
        // Within the bins and gains whatever the table says: it may be in flash that has changed since it was checked.
        const uint32_t first = smaller(p->filters[2 * b], p->fft / 2u + 1);
        const uint32_t width = smaller(smaller(p->filters[2 * b + 1], p->fft / 2u + 1 - first), gains);
        const uint32_t *v = bins + first;
        uint64_t sum = 0;
        gains -= width;
        for (uint32_t i = width; i; --i, ++v) {
            const uint32_t w = *gain++;
            sum += (*v >> 16) * w + ((*v & 0xffff) * w >> 16);
        }
        if (p->flags & MICA_LOG_MEL_LIMIT) {
            sum = sum < floor ? floor : sum;
        } else {
            sum += floor;
        }
        log[b] = log2_of(sum ? sum : 1) + exponent * 65536 - minus;
    }
}

// sum(log * dct) / 2^11, rounded down, the logarithms being less than 2^23 in magnitude.
static int32_t dct_of(const int32_t *log, const int16_t *dct, uint32_t n) {
    int32_t high = 0, low = 0;
    for (uint32_t i = 0; i < n; ++i) {
        high += (log[i] >> 12) * dct[i];
        low += (log[i] & 0xfff) * dct[i];
    }
    return high * 2 + (low >> 11);
}

void mica_log_mel_s8_ref(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    const uint32_t half = p->fft / 2u;
    const bool power = p->flags & MICA_LOG_MEL_POWER;
    uint32_t *z = scratch;
    int32_t *log = (int32_t *)z + half + 1, minus = 0;
    uint64_t floor = (uint64_t)p->floor;
    if (p->flags & MICA_LOG_MEL_PEAK) {
        int32_t peak = 1;
        for (uint32_t i = 0; i < p->samples; ++i) {
            peak = p->x[i] > peak ? p->x[i] : peak;
        }
        minus = log2_of((uint64_t)peak) * (power ? 2 : 1);
        floor *= (uint64_t)peak * (power ? (uint64_t)peak : 1);
    }
    for (uint32_t r = row_begin; r < row_end; ++r) {
        int32_t exponent = take_frame(p, r * p->hop, z) - 15;
        exponent += transform(p->twiddles, z, half);
        spectrum(p->twiddles, z, half, power);
        take_logs(p, z, power ? 2 * exponent : exponent - 8, floor, minus, log);
        int8_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t c = 0; c < p->out_n; ++c) {
            const int32_t v = p->flags & MICA_LOG_MEL_DCT ? dct_of(log, p->dct + (size_t)c * p->bands, p->bands) : log[c];
            y[c] = mica_requant_s8(v + p->bias[c], p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

// From a window of samples of several axes to features of each; contract in mica_kernels.h, arithmetic in SPEC.md.
#include "log_mel.h"
#ifndef MICA_WITHOUT_AXES_S8

#include "requant.h"

#define BIAS_LIMIT (1 << 30)
#define VALUE_LIMIT (1 << 30)
#define FRACTION 12     // binary places of extremes and counts
#define SUM_FRACTION 4  // and of what stands in units of 1 / rows
#define MANTISSA 24     // bits of an energy

mica_status_t mica_axes_s8_check(const mica_axes_s8_t *p, const char **what) {
    *what = "there are other rows than 2 to 2048, or a dimension is 0 or too large";
    if (p->rows < 2 || p->rows > MICA_AXES_MOST_ROWS || !p->axes || !p->each || p->bands > p->each
        || (uint64_t)p->rows * p->axes > MICA_MAX_BYTES / 2 || (uint64_t)p->each * p->axes > MICA_MAX_BYTES / 4) {
        return MICA_ERR_SHAPE;
    }
    *what = "stats are none of those that there are, or more than 8";
    const uint32_t stats = (uint32_t)p->each - p->bands;
    if (stats > 8 || p->stats & ~0x77777777u || (stats < 8 && p->stats >> (4 * stats))) {
        return MICA_ERR_RANGE;
    }
    *what = "the FFT is no power of two from 32 to 2048, or shorter than a window, or there without bands";
    const bool power_of_two = p->fft >= 32 && p->fft <= MICA_LOG_MEL_MOST_POINTS && !(p->fft & (p->fft - 1))
        && p->rows <= p->fft;
    if (p->bands ? !power_of_two : p->fft != 0) {
        return MICA_ERR_SHAPE;
    }
    *what = "energy, places or flags is out of its range";
    const bool sound = p->energy < MICA_AXES_ENERGIES && p->flags <= MICA_AXES_ACROSS && p->places >= -MICA_AXES_PLACES
        && p->places <= MICA_AXES_PLACES && p->act_min <= p->act_max;
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_axes_s8_rows(const mica_axes_s8_t *p) {
    return p->flags & MICA_AXES_ACROSS ? 1 : p->axes;  // across, what an axis has is all over y
}

uint32_t mica_axes_s8_scratch_bytes(const mica_axes_s8_t *p) {
    return p->bands ? 4 * (p->fft + (p->rows + 1u) / 2) : 0;
}

static const int16_t *window(const mica_axes_s8_t *p) {
    return p->tables + p->fft + 2;
}

// The statistic that is feature f.
static uint32_t stat(const mica_axes_s8_t *p, uint32_t f) {
    return p->stats >> (4 * f) & 7;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

mica_status_t mica_axes_s8_check_constants(const mica_axes_s8_t *p, const char **what) {
    if (p->bands) {
        if (((uintptr_t)p->tables | (uintptr_t)p->filters) & 1) {
            *what = "a table is not aligned to 2";
            return MICA_ERR_ALIGN;
        }
        const mica_status_t turns = mica_spectrum_check_turns(window(p), p->rows, p->tables, p->fft, what);
        if (turns != MICA_OK) {
            return turns;
        }
        for (uint32_t b = 0; b < p->bands; ++b) {
            if (p->filters[2 * b] + p->filters[2 * b + 1] > p->fft / 2u + 1) {
                *what = "a band is none of the bins";
                return MICA_ERR_RANGE;
            }
        }
        for (uint32_t a = 0; a < p->axes; ++a) {
            if (p->least[a] < -VALUE_LIMIT || p->least[a] > VALUE_LIMIT) {
                *what = "a least logarithm is too large";
                return MICA_ERR_RANGE;
            }
        }
    }
    for (size_t i = 0, n = (size_t)p->axes * p->each; i < n; ++i) {
        if (p->bias[i] <= -BIAS_LIMIT || p->bias[i] >= BIAS_LIMIT) {
            *what = "a bias is too large";
            return MICA_ERR_RANGE;
        }
        if (p->mult[i] < MICA_MULT_MIN || p->shift[i] < MICA_SHIFT_MIN || p->shift[i] > MICA_SHIFT_MAX) {
            *what = "a factor of requantisation is out of its range";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

// Band b: its bins are within those that there are whatever the table says, which may be in flash that has changed
// since it was checked.
typedef struct {
    uint32_t begin, end;
} band_t;

static band_t band(const mica_axes_s8_t *p, uint32_t b) {
    const uint32_t bins = p->fft / 2u + 1, begin = smaller(p->filters[2 * b], bins);
    return (band_t){begin, begin + smaller(p->filters[2 * b + 1], bins - begin)};
}

void mica_axes_s8_prepare(mica_axes_s8_t *p) {
    p->bin_begin = (uint16_t)(p->fft / 2u + 1);
    p->bin_end = 0;
    for (uint32_t b = 0; b < p->bands; ++b) {
        const band_t one = band(p, b);
        if (one.begin < one.end) {
            p->bin_begin = (uint16_t)smaller(p->bin_begin, one.begin);
            p->bin_end = one.end > p->bin_end ? (uint16_t)one.end : p->bin_end;
        }
    }
    p->flags |= p->bands && mica_spectrum_is_circle(p->tables, p->fft) ? MICA_AXES_CIRCLE : 0;
}

// What all features of an axis come of.
typedef struct {
    uint64_t squares;  // their sum
    int32_t sum, low, high;
    int32_t bits;  // of the samples less their mean, in units of 1 / rows
} axis_t;

// floor(16 * sqrt(v)), v <= 2^52
static int32_t root(uint64_t v) {
    v <<= 2 * SUM_FRACTION;
    uint64_t bit = (uint64_t)1 << 60, r = 0;
    while (bit > v) {
        bit >>= 2;
    }
    for (; bit; bit >>= 2) {
        const uint64_t more = r + bit;
        r >>= 1;
        if (v >= more) {
            v -= more;
            r += bit;
        }
    }
    return (int32_t)r;
}

// In loops of few numbers each, so that small cores keep them in registers.
static void sum_up(const mica_axes_s8_t *p, const int16_t *x, axis_t *to) {
    const uint32_t step = p->axes;
    const int16_t *const end = x + (size_t)p->rows * step;
    int32_t sum = 0, low = x[0], high = x[0];
    uint32_t squares = 0, upper = 0;  // the lower 16 bits of the squares, and the others
    for (const int16_t *at = x; at != end; at += step) {
        const int32_t v = *at;
        const uint32_t square = (uint32_t)(v * v);
        sum += v;
        squares += square & 0xffff;
        upper += square >> 16;
    }
    for (const int16_t *at = x; at != end; at += step) {
        const int32_t v = *at;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    to->sum = sum;
    to->squares = ((uint64_t)upper << 16) + squares;
    to->low = low;
    to->high = high;
    const int32_t rows = p->rows, above = rows * high - sum, below = sum - rows * low;
    to->bits = mica_spectrum_bits((uint32_t)(above > below ? above : below));
}

// How often samples change from below `level` to it or above, or back.
static uint32_t crossings(const mica_axes_s8_t *p, const int16_t *x, int32_t level) {
    const uint32_t step = p->axes;
    const int16_t *const end = x + (size_t)p->rows * step;
    uint32_t n = 0;
    int32_t before = x[0] - level;
    for (; x != end; x += step) {
        const int32_t v = *x - level;
        n += (uint32_t)(v ^ before) >> 31;
        before = v;
    }
    return n;
}

// The samples less their mean, with 15 bits and a sign. Returns the exponent of their unit of 1 / rows.
static int32_t centre(const mica_axes_s8_t *p, const int16_t *x, const axis_t *of, int16_t *to) {
    const int32_t s = of->bits - 15, rows = p->rows, down = s > 0 ? s : 0, up = s > 0 ? 1 : 1 << -s;
    const int32_t minus = of->sum - (down ? 1 << (down - 1) : 0);
    const uint32_t step = p->axes;
    for (uint32_t i = 0; i < p->rows; ++i, x += step) {
        const int32_t v = (*x * rows - minus) >> down;
        to[i] = (int16_t)(v > INT16_MAX ? INT16_MAX : v * up);
    }
    return s;
}

// mantissa * 2^exponent, halves up, at most VALUE_LIMIT. The mantissa has MANTISSA bits, or is 0.
static int32_t shifted(uint32_t mantissa, int32_t exponent) {
    if (exponent > 30 - MANTISSA) {
        return mantissa ? VALUE_LIMIT : 0;
    }
    if (exponent >= 0) {
        return (int32_t)(mantissa << exponent);
    }
    return exponent < -31 ? 0 : (int32_t)((mantissa + (1u << (-exponent - 1))) >> -exponent);
}

// Of a sum of squares in units of 2^(2 * exponent).
static int32_t energy(const mica_axes_s8_t *p, uint64_t sum, int32_t exponent, int32_t least) {
    if (p->energy == MICA_AXES_LOG) {
        const int32_t v = mica_spectrum_log2(sum ? sum : 1) + exponent * (2 * 65536);
        return v < least ? least : v;
    }
    const uint32_t high = (uint32_t)(sum >> 32);
    const int32_t bits = high ? 32 + mica_spectrum_bits(high) : mica_spectrum_bits((uint32_t)sum);
    if (p->energy == MICA_AXES_ROOT) {
        const int32_t up = (64 - bits) & ~1;
        const uint32_t top = up >= 64 ? 0 : (uint32_t)(sum << up >> 32);
        return shifted(mica_spectrum_root(top), exponent + 8 - up / 2 + p->places);
    }
    const int32_t down = bits - MANTISSA;
    return shifted((uint32_t)(down > 0 ? sum >> down : sum << -down), 2 * exponent + down + p->places);
}

// sum / rows
static int32_t rounded_up(int32_t sum, uint32_t rows) {
    return sum > 0 ? (int32_t)(((uint32_t)sum + rows - 1) / rows) : -(int32_t)((uint32_t)-sum / rows);
}

static int32_t statistic(const mica_axes_s8_t *p, const int16_t *x, const axis_t *of, uint32_t which) {
    const uint32_t rows = p->rows;
    switch (which) {
        case MICA_AXES_MEAN:
            return of->sum * (1 << SUM_FRACTION);
        case MICA_AXES_STD:
            return root(of->squares * rows - (uint64_t)((int64_t)of->sum * of->sum));
        case MICA_AXES_RMS:
            return root(of->squares * rows);
        case MICA_AXES_MIN:
            return of->low * (1 << FRACTION);
        case MICA_AXES_MAX:
            return of->high * (1 << FRACTION);
        case MICA_AXES_PTP:
            return (of->high - of->low) * (1 << FRACTION);
        case MICA_AXES_CROSS:
            return (int32_t)(crossings(p, x, rounded_up(of->sum, rows)) << FRACTION);
        default:
            return (int32_t)(crossings(p, x, 0) << FRACTION);
    }
}

void mica_axes_s8_with(
    const mica_axes_s8_t *p, const mica_log_mel_loops_t *loops, void *scratch, uint32_t row_begin, uint32_t row_end) {
    const uint32_t stats = (uint32_t)p->each - p->bands;
    const bool across = p->flags & MICA_AXES_ACROSS;
    int32_t *z = scratch;
    const uint32_t end = across && row_begin < row_end ? p->axes : row_end;
    for (uint32_t a = row_begin; a < end; ++a) {
        const int16_t *x = p->x + a;
        axis_t of;
        sum_up(p, x, &of);
        int32_t exponent = 0;
        if (p->bands) {
            int16_t *samples = (int16_t *)(z + p->fft);
            exponent = centre(p, x, &of, samples);
            const mica_log_mel_s8_t frame = {.x = samples, .window = window(p), .twiddles = p->tables, .frame = p->rows,
                .fft = p->fft, .bin_begin = p->bin_begin, .bin_end = p->bin_end, .flags = MICA_LOG_MEL_POWER};
            exponent += mica_spectrum(&frame, loops, 0, z);
        }
        size_t at = across ? a : (size_t)a * p->each;
        for (uint32_t f = 0; f < p->each; ++f, at += across ? p->axes : 1) {
            int32_t v;
            if (f < stats) {
                v = statistic(p, x, &of, stat(p, f));
            } else {
                const band_t one = band(p, f - stats);
                uint64_t sum = 0;
                for (uint32_t k = one.begin; k < one.end; ++k) {
                    sum += ((const uint32_t *)z)[k];
                }
                v = energy(p, sum, exponent, p->least[a]);
            }
            p->y[at] = mica_requant_s8(v + p->bias[at], p->mult[at], p->shift[at], p->y_zero, p->act_min, p->act_max);
        }
    }
}

void mica_axes_s8_ref(const mica_axes_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_axes_s8_with(p, &mica_log_mel_loops, scratch, row_begin, row_end);
}

#endif

// From sound to rows of logarithms of band energies; contract in mica_kernels.h, arithmetic in SPEC.md.
#include "log_mel.h"
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8)

#define FLOOR_BITS 62
#define DCT_LIMIT (1 << 18)
#define BIAS_LIMIT (1 << 29)

static bool is_power_of_two(uint32_t v) {
    return v && (v & (v - 1)) == 0;
}

// Where the first frame begins.
static uint32_t first_sample(const mica_log_mel_s8_t *p) {
    return p->flags & MICA_LOG_MEL_BEFORE ? 1 : 0;
}

// Whether the frames are those of the samples.
static bool frames_fit(const mica_log_mel_s8_t *p) {
    const uint32_t first = first_sample(p);
    if (!p->hop || !p->frames || !p->samples) {
        return false;
    }
    if (p->flags & MICA_LOG_MEL_PAD) {
        // Where it ends behind the first sample; at most one sample less than all may lie before them, and behind them.
        const uint64_t end = (uint64_t)(p->frames - 1) * p->hop + p->frame;
        return p->pad < p->samples && end < (uint64_t)p->pad + 2 * (uint64_t)p->samples;
    }
    return p->samples >= first + p->frame && p->frames == 1 + (p->samples - first - p->frame) / p->hop;
}

static bool numbers_fit(const mica_log_mel_s8_t *p) {
    return p->flags < 2 * MICA_LOG_MEL_MIRROR && p->preemphasis <= 1 << 15 && p->floor >= 0
        && (p->flags & MICA_LOG_MEL_PAD ? !p->preemphasis && !first_sample(p)
        : !p->pad && !(p->flags & MICA_LOG_MEL_MIRROR)) && p->floor_exponent >= -64 && p->floor_exponent < 64
        && p->act_min <= p->act_max && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN
        && p->shift <= MICA_SHIFT_MAX;
}

mica_status_t mica_log_mel_s8_check(const mica_log_mel_s8_t *p, const char **what) {
    *what = "the FFT is no power of two from 32 to 2048, or shorter than a frame";
    if (!is_power_of_two(p->fft) || p->fft < 32 || p->fft > MICA_LOG_MEL_MOST_POINTS || !p->frame
        || p->frame > p->fft) {
        return MICA_ERR_SHAPE;
    }
    *what = "the frames are not those of the samples";
    if (!frames_fit(p)) {
        return MICA_ERR_SHAPE;
    }
    *what = "a dimension is 0 or too large, or there are other columns than bands";
    if (!p->bands || !p->out_n || p->n_gains > MICA_MAX_BYTES / 2 || (uint64_t)p->frames * p->out_n > MICA_MAX_BYTES
        || (uint64_t)p->bands * p->out_n > MICA_MAX_BYTES / 2
        || (!(p->flags & MICA_LOG_MEL_DCT) && p->bands != p->out_n)) {
        return MICA_ERR_SHAPE;
    }
    *what = "flags, pad, pre-emphasis, floor, or a factor of requantisation is out of its range";
    return numbers_fit(p) ? MICA_OK : MICA_ERR_RANGE;
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

mica_status_t mica_log_mel_check_tables(const mica_log_mel_s8_t *p, const char **what) {
    if (((uintptr_t)p->window | (uintptr_t)p->twiddles | (uintptr_t)p->filters | (uintptr_t)p->gains
        | (uintptr_t)p->dct) & 1) {
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
    return MICA_OK;
}

#ifndef MICA_WITHOUT_LOG_MEL_S8
mica_status_t mica_log_mel_s8_check_constants(const mica_log_mel_s8_t *p, const char **what) {
    const mica_status_t tables = mica_log_mel_check_tables(p, what);
    if (tables != MICA_OK) {
        return tables;
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

#endif

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

mica_log_mel_filter_t mica_log_mel_filter(const mica_log_mel_s8_t *p, uint32_t b) {
    const uint32_t bins = p->fft / 2u + 1, begin = smaller(p->filters[2 * b], bins);
    return (mica_log_mel_filter_t){begin, begin + smaller(p->filters[2 * b + 1], bins - begin)};
}

void mica_log_mel_s8_prepare(mica_log_mel_s8_t *p) {
    p->bin_begin = (uint16_t)(p->fft / 2u + 1);
    p->bin_end = 0;
    for (uint32_t b = 0; b < p->bands; ++b) {
        const mica_log_mel_filter_t one = mica_log_mel_filter(p, b);
        if (one.begin < one.end) {
            p->bin_begin = (uint16_t)smaller(p->bin_begin, one.begin);
            p->bin_end = one.end > p->bin_end ? (uint16_t)one.end : p->bin_end;
        }
    }
    p->flags |= mica_spectrum_is_circle(p->twiddles, p->fft) ? MICA_LOG_MEL_CIRCLE : 0;
}

#ifndef MICA_WITHOUT_LOG_MEL_S8

// Logarithms of the bands' sums. exponent: bins count in 2^exponent. floor: in 2^floor_exponent. minus: taken off each.
static void take_logs(const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, const uint32_t *bins,
    int32_t exponent, uint64_t floor, int32_t minus, int32_t *log) {
    int32_t up = p->floor_exponent - exponent, much = 0;
    if (floor) {  // where it would need more bits than it may have, the sums go down instead
        const uint32_t high = (uint32_t)(floor >> 32);
        much = up + (high ? 32 + mica_spectrum_bits(high) : mica_spectrum_bits((uint32_t)floor)) - FLOOR_BITS;
        much = much > 0 ? much : 0;
        up -= much;
        floor = up >= 0 ? floor << up : up > -64 ? floor >> -up : 0;
    }
    const int32_t more = (exponent + much) * 65536 - minus;
    if (loops->logs) {
        loops->logs(p, bins, (uint32_t)much, floor, more, log);
        return;
    }
    const uint16_t *gain = p->gains;
    const bool limit = p->flags & MICA_LOG_MEL_LIMIT;
    const uint32_t all = p->fft / 2u + 1;
    uint32_t gains = p->n_gains;
    for (const uint16_t *filter = p->filters, *const end = filter + 2 * p->bands; filter != end; filter += 2) {
        const uint32_t begin = smaller(filter[0], all), width = smaller(smaller(filter[1], all - begin), gains);
        uint64_t sum = loops->band(bins + begin, gain, width);
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
        *log++ = mica_spectrum_log2(sum ? sum : 1) + more;
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
    const mica_log_mel_s8_t *whole, const mica_log_mel_loops_t *loops, int32_t *z, uint32_t row_begin,
        uint32_t row_end) {
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
        for (uint32_t c = 0, n; c < p->out_n; c += n) {  // where the bins were
            n = smaller(p->out_n - c, half);
            for (uint32_t i = 0; i < n; ++i) {
                z[i] = loops->dct(log, p->dct + (size_t)(c + i) * p->bands, p->bands);
            }
            loops->round(p, z, c, n, y);
        }
    }
}

void mica_log_mel_s8_ref(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    mica_log_mel_s8_with(p, &mica_log_mel_loops, scratch, row_begin, row_end);
}
#endif

#endif

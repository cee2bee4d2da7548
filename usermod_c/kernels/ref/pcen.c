// From sound to energies of bands, each divided by a power of what it was before; contract in mica_kernels.h,
// arithmetic in SPEC.md.
#include "kept.h"
#include "log_mel.h"
#ifndef MICA_WITHOUT_PCEN_S8

#define LEAST_EXPONENT (-128)
#define MOST_EXPONENT 127

// m * 2^e, m from 2^30 to 2^31 - 1, or 0
typedef struct {
    uint32_t m;
    int32_t e;
} number_t;

mica_status_t mica_pcen_s8_check(const mica_pcen_s8_t *p, const char **what) {
    const mica_status_t sound = mica_log_mel_s8_check(&p->sound, what);
    if (sound != MICA_OK) {
        return sound;
    }
    *what = "flags, or a parameter of the normalisation, is out of its range";
    const bool good = !(p->sound.flags & ~(MICA_LOG_MEL_POWER | MICA_LOG_MEL_BEFORE)) && p->smooth >= 1
        && p->smooth <= MICA_PCEN_ONE && p->alpha <= MICA_PCEN_ONE && p->eps >= 0 && p->start >= 0
        && p->eps_exponent >= LEAST_EXPONENT && p->eps_exponent <= MOST_EXPONENT && p->start_exponent >= LEAST_EXPONENT
        && p->start_exponent <= MOST_EXPONENT && p->origin >= -(1 << 24) && p->origin <= 1 << 24 && p->points >= 2
        && p->places >= 2 && p->places <= 8;
    return good ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_pcen_s8_rows(const mica_pcen_s8_t *p) {
    (void)p;
    return 1;
}

uint32_t mica_pcen_s8_scratch_bytes(const mica_pcen_s8_t *p) {
    return 4 * ((uint32_t)p->sound.fft + p->sound.bands);
}

mica_status_t mica_pcen_s8_check_constants(const mica_pcen_s8_t *p, const char **what) {
    if ((uintptr_t)p->curve & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    return mica_log_mel_check_tables(&p->sound, what);
}

void mica_pcen_s8_prepare(mica_pcen_s8_t *p) {
    mica_log_mel_s8_prepare(&p->sound);
}

// v * 2^e
static number_t number(uint32_t v, int32_t e) {
    const int32_t more = mica_spectrum_bits(v) - 31;
    return (number_t){more > 0 ? v >> 1 : v << -more, e + more};
}

static number_t number_of_sum(uint64_t v, int32_t e) {
    const uint32_t high = (uint32_t)(v >> 32), low = (uint32_t)v;
    if (!high) {
        return number(low, e);
    }
    const int32_t more = mica_spectrum_bits(high) + 1;
    return (number_t){more < 32 ? high << (32 - more) | low >> more : high >> (more - 32), e + more};
}

static number_t sum_of(number_t a, number_t b) {
    if (!a.m || (b.m && b.e > a.e)) {
        const number_t c = a;
        a = b;
        b = c;
    }
    const uint32_t rest = b.m && a.e - b.e < 31 ? b.m >> (a.e - b.e) : 0;
    return number(a.m + rest, a.e);
}

// k in units of 2^-16
static number_t part_of(number_t a, uint32_t k) {
    return number((a.m >> 15) * k + ((a.m & 0x7fff) * k >> 15), a.e - 1);
}

// In units of 2^-16. a is not 0.
static int32_t log_of(number_t a) {
    return mica_spectrum_log2(a.m) + a.e * 65536;
}

// 24 bits of m, and e: never 0, which is a band of which nothing is known.
static uint32_t packed(number_t a) {
    if (!a.m || a.e < LEAST_EXPONENT) {
        return 1u << 31;
    }
    return a.e > MOST_EXPONENT ? UINT32_MAX : a.m >> 7 << 8 | (uint32_t)(a.e - LEAST_EXPONENT);
}

static int32_t output(const mica_pcen_s8_t *p, number_t eps, number_t energy, uint32_t *noise) {
    number_t smooth = number(*noise >> 8, (int32_t)(*noise & 0xff) + LEAST_EXPONENT + 7);
    if (!*noise) {
        smooth = p->start ? number((uint32_t)p->start, p->start_exponent) : energy;
    }
    smooth = sum_of(part_of(smooth, MICA_PCEN_ONE - p->smooth), part_of(energy, p->smooth));
    *noise = packed(smooth);
    if (!energy.m) {
        return p->curve[0];
    }
    const int32_t under = log_of(sum_of(smooth, eps)), alpha = (int32_t)p->alpha;
    const int32_t power = ((under >> 9) * alpha + ((under & 511) * alpha >> 9)) >> 7;  // |under| < 2^23.4
    const int32_t at = log_of(energy) - power - p->origin;
    const uint32_t i = (uint32_t)at >> (16 - p->places), last = p->points - 1u;
    if (at < 0 || i >= last) {
        return p->curve[at < 0 ? 0 : last];
    }
    const int32_t between = at & ((1 << (16 - p->places)) - 1);
    return p->curve[i] + ((p->curve[i + 1] - p->curve[i]) * between >> (16 - p->places));
}

void mica_pcen_s8_with(const mica_pcen_s8_t *p, const mica_log_mel_loops_t *loops, int32_t *z) {
    const mica_log_mel_s8_t *s = &p->sound;
    const uint32_t bands = s->bands;
    const bool power = s->flags & MICA_LOG_MEL_POWER;
    uint32_t *noise = (uint32_t *)z + s->fft, begin = s->flags & MICA_LOG_MEL_BEFORE ? 1 : 0;
    const number_t eps = number((uint32_t)p->eps, p->eps_exponent);
    mica_kept_take(noise, p->noise, bands, p->noise_zero);
    int8_t *y = s->y;
    for (uint32_t r = 0; r < s->frames; ++r, begin += s->hop) {
        const int32_t root = mica_spectrum(s, loops, begin, z), exponent = power ? 2 * root : root - 8;
        const uint16_t *gain = s->gains;
        uint32_t gains = s->n_gains;
        for (uint32_t b = 0; b < bands; ++b) {
            const mica_log_mel_filter_t one = mica_log_mel_filter(s, b);
            const uint32_t width = one.end - one.begin < gains ? one.end - one.begin : gains;
            const uint64_t sum = loops->band((const uint32_t *)z + one.begin, gain, width);
            gain += width;
            gains -= width;
            const int32_t v = (output(p, eps, number_of_sum(sum, exponent), noise + b) + 128) >> 8;
            *y++ = (int8_t)(v < INT8_MAX ? v : INT8_MAX);
        }
    }
    if (p->noise) {
        mica_kept_put(y, noise, bands, s->y_zero);
    }
}

void mica_pcen_s8_ref(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    if (row_begin < row_end) {
        mica_pcen_s8_with(p, &mica_log_mel_loops, scratch);
    }
}

#endif

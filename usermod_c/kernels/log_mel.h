// The inner loops of log_mel_s8, pcen_s8 and axes_s8, which instruction sets may have of their own; the rest of a frame
// is the same everywhere.
#ifndef MICA_LOG_MEL_H
#define MICA_LOG_MEL_H

#include "mica_kernels.h"

// `bits` are those that all numbers v, or ~v where v is negative, have together; or any number with as many bits where
// there are more than 15. s: places to shift to the right, halves up, before all else. z: half complex numbers.
typedef struct {
    // The frame from x[begin] on times the window into z, two by two, in bit-reversed order, then zeros. Returns bits.
    uint32_t (*take)(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t *exponent);
    // The two first stages of a transform. Returns bits.
    uint32_t (*first)(int32_t *z, uint32_t half, int32_t s);
    // The stage of butterflies h apart. s <= 4. Returns bits.
    uint32_t (*stage)(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s);
    // From bins k and half - k of the complex numbers to eight times the real ones', but for bin 0. Returns bits.
    uint32_t (*split)(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s);
    // Of bins k to end - 1 the squares of their sizes, one word each: z[k] and so on in place of z[2k], z[2k + 1].
    // 0 < k <= end <= half.
    void (*squares)(int32_t *z, uint32_t k, uint32_t end, int32_t s);
    // Roots of v in their place, by the table of SPEC.md.
    void (*roots)(uint32_t *v, uint32_t n, const uint32_t *table);
    // The sum of products / 2^16.
    uint64_t (*band)(const uint32_t *bins, const uint16_t *gains, uint32_t n);
    // sum(log * dct) / 2^11, rounded down, the logarithms being less than 2^23 in magnitude.
    int32_t (*dct)(const int32_t *log, const int16_t *dct, uint32_t n);
    // Columns c to c + n - 1 of a row y, v being those of the first.
    void (*round)(const mica_log_mel_s8_t *p, const int32_t *v, uint32_t c, uint32_t n, int8_t *y);
    // Logarithms, each with `more` added, of bands' sums / 2^much plus `floor`, or with limit at least it. NULL:
    // band().
    void (*logs)(const mica_log_mel_s8_t *p, const uint32_t *bins, uint32_t much, uint64_t floor, int32_t more,
        int32_t *log);
} mica_log_mel_loops_t;

extern const mica_log_mel_loops_t mica_log_mel_loops;  // in C

// Of the samples from x[begin + i] to the frame's end, after pre-emphasis. Returns bits, exactly.
uint32_t mica_log_mel_sample_bits_from(const mica_log_mel_s8_t *p, uint32_t begin, uint32_t i);
// Pairs of the frame from pair k on, shifted by s and times the window, into z. Returns their bits.
uint32_t mica_log_mel_take_from(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s, uint32_t k);

// What all need, in bins.c. Of p only x, window, twiddles, frame, fft, preemphasis, flags, bin_begin, bin_end are read.
mica_status_t mica_spectrum_check_turns(const int16_t *window, uint32_t frame, const int16_t *twiddles, uint32_t fft,
    const char **what);
// Whether twiddle factor 0 is 1, and all others are those of the first eighth with parts swapped and negated.
bool mica_spectrum_is_circle(const int16_t *twiddles, uint32_t fft);
// Squares of the bins that filters hold, or 2^8 times the sizes without the flag power, of the frame from x[begin] on.
// Returns the exponent of the sizes' unit.
int32_t mica_spectrum(const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, uint32_t begin, int32_t *z);
int32_t mica_spectrum_bits(uint32_t v);  // how many v has
extern const uint32_t mica_spectrum_logs[65];
int32_t mica_spectrum_log2(uint64_t v);  // in units of 2^-16, v >= 1
uint32_t mica_spectrum_root(uint32_t v);  // in units of 2^-8, rounded

// Filter b of log_mel_s8 or pcen_s8: its bins are within those that there are whatever the table says, which may be in
// flash that has changed since it was checked.
typedef struct {
    uint32_t begin, end;
} mica_log_mel_filter_t;
mica_log_mel_filter_t mica_log_mel_filter(const mica_log_mel_s8_t *p, uint32_t b);
// Of the constants window, twiddles, filters and gains.
mica_status_t mica_log_mel_check_tables(const mica_log_mel_s8_t *p, const char **what);

void mica_axes_s8_with(
    const mica_axes_s8_t *p, const mica_log_mel_loops_t *loops, void *scratch, uint32_t row_begin, uint32_t row_end);
void mica_log_mel_s8_with(
    const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, int32_t *z, uint32_t row_begin, uint32_t row_end);
void mica_pcen_s8_with(const mica_pcen_s8_t *p, const mica_log_mel_loops_t *loops, int32_t *z);

#endif

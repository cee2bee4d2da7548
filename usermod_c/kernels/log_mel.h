// The inner loops of log_mel_s8, which instruction sets may have of their own; the rest of a frame is the same everywhere.
#ifndef MICA_LOG_MEL_H
#define MICA_LOG_MEL_H

#include "mica_kernels.h"

// `bits` are those that all numbers v, or ~v where v is negative, have together; or any number with as many bits where there are more than 15.
// s: places to shift to the right, halves up, before anything else. z: half complex numbers.
typedef struct {
    // Of the frame from x[begin] on, after pre-emphasis, exactly.
    uint32_t (*sample_bits)(const mica_log_mel_s8_t *p, uint32_t begin);
    // The frame times the window into z, two by two, in bit-reversed order, and zeros behind it. s may be negative. Returns bits.
    uint32_t (*take)(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s);
    // The two first stages of a transform. Returns bits.
    uint32_t (*first)(int32_t *z, uint32_t half, int32_t s);
    // The stage of butterflies h apart. s <= 4. Returns bits.
    uint32_t (*stage)(const int16_t *twiddles, int32_t *z, uint32_t half, uint32_t h, int32_t s);
    // From bins k and half - k of the complex numbers to eight times those of the real ones, but for bin 0. Returns bits.
    uint32_t (*split)(const int16_t *twiddles, int32_t *z, uint32_t half, int32_t s);
    // Of bins 1 to half - 1 the squares of their sizes, one word each, in their place.
    void (*squares)(int32_t *z, uint32_t half, int32_t s);
    // Roots of v in their place, by the table of SPEC.md.
    void (*roots)(uint32_t *v, uint32_t n, const uint32_t *table);
    // The sum of products / 2^16.
    uint64_t (*band)(const uint32_t *bins, const uint16_t *gains, uint32_t n);
    // A feature as int8.
    int8_t (*round)(const mica_log_mel_s8_t *p, int32_t v);
} mica_log_mel_loops_t;

extern const mica_log_mel_loops_t mica_log_mel_loops;  // in C

// The loop `take` from pair k on. Returns the bits of those.
uint32_t mica_log_mel_take_from(const mica_log_mel_s8_t *p, uint32_t begin, int32_t *z, int32_t s, uint32_t k);

void mica_log_mel_s8_with(
    const mica_log_mel_s8_t *p, const mica_log_mel_loops_t *loops, int32_t *z, uint32_t row_begin, uint32_t row_end);

#endif

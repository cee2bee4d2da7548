// mica: samples of 16 bits from the bits of a PDM microphone. Oracle: tests/kernels/pdm_oracle.py. Used by
// firmware/mica/pdm.py.
//
// A CIC filter of order 3 takes the bits to twice the rate of the samples, eight at a time by one look-up. A half-band
// filter of 19 taps leaves every second value, and three taps more make good what the CIC has taken from high tones. A
// high pass at rate / 1600 takes the microphone's constant part away.
#ifndef MICA_PDM_H
#define MICA_PDM_H

#include <stdbool.h>
#include <stddef.h>

#include "mica_port.h"

#define MICA_PDM_TAPS (19)
#define MICA_PDM_CHUNK (32)  // samples that are made at once

typedef struct {
    uint32_t shift;      // 0, 3 or 6: 64, 128 or 256 bits a sample
    int32_t gain;        // 1 to 64: what the samples are multiplied by
    uint32_t carried;    // of the last bytes: what they add to the next sums
    uint32_t sums[3];    // at the rate of the bytes, modulo 2^32
    uint32_t last[3];    // of the differences
    int32_t level;       // 256 times the constant part
    int32_t before[2];   // the last two of the half-band filter
    uint32_t taken;      // of a ring: bytes that are done, samples that are there, and all samples, modulo 2^24
    uint32_t place;
    uint32_t count;
    int32_t values[MICA_PDM_TAPS - 2 + 2 * MICA_PDM_CHUNK];  // at twice the rate; the first are the last chunk's
    uint32_t table[256]; // of a byte, its first bit the lowest: what it adds to three sums, 10 bits each from bit 22 on
} mica_pdm_t;

// Make a filter. False: ratio, the bits of a sample, is not 64, 128 or 256, or gain is not 1 to 64.
bool mica_pdm_begin(mica_pdm_t *p, int32_t ratio, int32_t gain);

// True if shift and gain are those of a filter. mica_pdm() then stays inside its memory with any other numbers in it.
bool mica_pdm_check(const mica_pdm_t *p);

// What DMA has written to a ring of bits, up to byte `at`, goes to one of samples, MICA_PDM_CHUNK each. Both hold many.
void mica_pdm_ring(mica_pdm_t *p, const uint8_t *bits, size_t bytes, int16_t *samples, size_t n, size_t at);

// n samples from n * ratio / 8 bytes; the sums go on from call to call. Full scale gives 32768 * gain, clamped.
void mica_pdm(mica_pdm_t *p, const uint8_t *bits, int16_t *samples, size_t n);

#endif

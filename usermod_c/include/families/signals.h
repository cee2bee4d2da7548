// mica: kernels that make features of sound and motion. How to read it: mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_SIGNALS_H
#define MICA_FAMILIES_SIGNALS_H

#include "mica.h"

// ---- log_mel_s8: y[r,c] = out(bias[c] + sum over bands b of dct[c,b] * log2(sum of bins, gain * |FFT of frame r|))
//   x int16 [samples]; y int8 [frames, out_n]; frame r begins at sample r * hop; without a DCT column c is band c
//   filters [bands, 2]: first bin and number of bins, whose gains follow one another; arithmetic: SPEC.md
//   scratch: mica_log_mel_s8_scratch_bytes; rows: frames
#define MICA_LOG_MEL_POWER 1  // squares of sizes
#define MICA_LOG_MEL_PEAK 2   // as if x were divided by its largest value, or 1 where that is less
#define MICA_LOG_MEL_LIMIT 4  // what is below the floor becomes it; otherwise it is added
#define MICA_LOG_MEL_DCT 8    // there is a dct
#define MICA_LOG_MEL_BEFORE 16  // the first sample is only the one before the first frame
#define MICA_LOG_MEL_PAD 32     // frames begin `pad` samples before x, and may end behind it: zeros lie there
#define MICA_LOG_MEL_MIRROR 64  // or x mirrored at its first and last sample
#define MICA_LOG_MEL_CIRCLE 128  // not in files: the twiddles are as symmetric as a circle, and [0] is 1
#define MICA_LOG_MEL_MOST_POINTS 2048
typedef struct {
    int8_t floor_exponent;
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    uint8_t flags;
    const int16_t *x;
    int8_t *y;
    const int16_t *window;    // [frame]
    const int16_t *twiddles;  // [fft / 2 + 1, 2]: cos and sin of 2 * pi * k / fft in units of 2^-14
    const uint16_t *filters;
    const uint16_t *gains;  // [n_gains]
    const int16_t *dct;       // [out_n, bands]
    const int32_t *bias;      // [out_n]
    uint32_t n_gains;
    int32_t floor;
    int32_t mult;
    uint16_t samples, frames, pad;
    uint16_t frame, hop, fft, bands, out_n, preemphasis;
    uint16_t bin_begin, bin_end;  // those bins that a filter holds
} mica_log_mel_s8_t;

size_t mica_log_mel_s8_dct_bytes(const mica_log_mel_s8_t *p);
uint32_t mica_log_mel_s8_scratch_bytes(const mica_log_mel_s8_t *p);
// Of constants that are checked: which bins are needed, and the flag circle.
void mica_log_mel_s8_prepare(mica_log_mel_s8_t *p);

// ---- pcan_s8: features of speech as TensorFlow Lite Micro's front end has them; formula: SPEC.md, kernel 50
//   x int16 [samples]; y int8 [frames, bands]; frame r begins at sample r * hop; a band's noise is 0 before the first
//   noise int8 [4, bands] or NULL: that before the first frame, in bytes, the lowest first, from noise_zero on;
//   y then has that behind the last frame below, counted from y_zero on
//   filters [bands + 1, 2]: first bin and number of bins, whose gains [n_gains, 2] for a band and the next lie in a row
//   scratch: mica_pcan_s8_scratch_bytes; rows: 1
#define MICA_PCAN_MOST_POINTS 2048
typedef struct {
    uint8_t places, snr_shift, log_places;
    int8_t correction, shift, noise_zero, y_zero;
    int8_t act_min, act_max;
    const int16_t *x;
    const int8_t *noise;
    int8_t *y;
    const int16_t *window;    // [frame]
    const int16_t *twiddles;  // [fft / 2 + fft / 4, 2]
    const uint16_t *filters;
    const uint16_t *gains;
    const int16_t *lut;    // [125]
    const uint16_t *logs;  // [129]
    uint32_t samples, frames, n_gains;
    int32_t mult;
    uint16_t frame, hop, fft, bands, even, odd, least;
} mica_pcan_s8_t;

uint32_t mica_pcan_s8_scratch_bytes(const mica_pcan_s8_t *p);

// ---- pcen_s8: bands of sound, each divided by a power of what it was before: per-channel energy normalisation;
// formula: SPEC.md, kernel 57
//   sound: as of log_mel_s8, with its flags power and before alone, and without floor, DCT, bias and requantisation
//   noise int8 [4, bands] or NULL, and y, as of pcan_s8; of a band of which nothing is known the noise is `start`, or
//     its first energy where that is 0
//   curve int16 [points]: 2^8 times the output, at logarithms that lie 2^-places apart, the first at `origin`
//   scratch: mica_pcen_s8_scratch_bytes; rows: 1
#define MICA_PCEN_ONE (1 << 16)  // of smooth and alpha
typedef struct {
    mica_log_mel_s8_t sound;
    const int8_t *noise;
    const int16_t *curve;
    uint32_t smooth, alpha;
    int32_t eps, start, origin;
    int16_t eps_exponent, start_exponent;
    uint16_t points;
    uint8_t places;
    int8_t noise_zero;
} mica_pcen_s8_t;

uint32_t mica_pcen_s8_scratch_bytes(const mica_pcen_s8_t *p);
void mica_pcen_s8_prepare(mica_pcen_s8_t *p);  // as of log_mel_s8

// ---- axes_s8: features of the axes of a window; formula: SPEC.md, kernel 56
//   x int16 [rows, axes]; y int8 [axes, each], or [each, axes] with the flag across; bias, mult, shift for each of y
//   stats: each - bands digits of 4 bits, MICA_AXES_MEAN and so on, the first the lowest; filters [bands, 2]: first bin
//     and number of bins; least [axes]
//   scratch: mica_axes_s8_scratch_bytes(p), 4-byte aligned; rows: axes, across 1
enum {
    MICA_AXES_MEAN, MICA_AXES_STD, MICA_AXES_RMS, MICA_AXES_MIN, MICA_AXES_MAX, MICA_AXES_PTP, MICA_AXES_CROSS,
    MICA_AXES_ZEROS, MICA_AXES_STATS
};
enum { MICA_AXES_POWER, MICA_AXES_ROOT, MICA_AXES_LOG, MICA_AXES_ENERGIES };  // what becomes of a sum of squares
#define MICA_AXES_ACROSS 1
#define MICA_AXES_CIRCLE 128  // not in files: as MICA_LOG_MEL_CIRCLE
#define MICA_AXES_MOST_ROWS 2048
#define MICA_AXES_PLACES 96
typedef struct {
    const int16_t *x;
    int8_t *y;
    const int16_t *tables;  // [fft / 2 + 1, 2]: cos, sin of 2 * pi * k / fft in units of 2^-14; then the window [rows]
    const uint16_t *filters;
    const int32_t *least;
    const int32_t *bias, *mult;
    const int8_t *shift;
    uint32_t stats;
    uint16_t rows, axes, each, bands, fft;
    uint16_t bin_begin, bin_end;  // those bins that a band holds
    int8_t places;
    uint8_t energy, flags;
    int8_t y_zero;
    int8_t act_min, act_max;
} mica_axes_s8_t;

uint32_t mica_axes_s8_scratch_bytes(const mica_axes_s8_t *p);
// Of constants that are checked: which bins are needed, and the flag circle.
void mica_axes_s8_prepare(mica_axes_s8_t *p);

#endif

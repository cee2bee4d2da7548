// mica: kernels for Cortex-M with the DSP instructions (M4, M7, M33): their assembly, as C sees it.
#ifndef MICA_ARMV7EM_KERNELS_H
#define MICA_ARMV7EM_KERNELS_H

#include "../c32/kernels.h"

// Four channels over a stream of pairs of pixels. Offsets stand in gemm.S.
typedef struct {
    const uint32_t *x, *x_end;  // 4 words for each four elements of a pair of pixels
    const uint32_t *w, *w_end;  // bias[4], then 8 words for each four elements; at w_end mica_dsp_requant_t[4]
    uint32_t words;             // of four elements, 1 or more
    int8_t *y;                  // the first pixel's
    uint32_t step;              // from pixel to pixel
} mica_dsp_gemm_t;

// How a sum becomes an int8: (round + floor(sum * mult / 2^32)) >> shift, saturated. The claim FAST sees to it that
// nothing overflows.
typedef struct {
    int32_t mult, round, shift;
} mica_dsp_requant_t;

// Where the constants of four channels come from and go to. A sum has to be shifted by 1 at least beyond the 32 bits
// that SMMLA drops: a channel that has less is told by its bit, and its weights and bias have to be doubled.
typedef struct {
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t rounding;           // 2 y_zero + 1
    uint32_t *start;            // four sums
    mica_dsp_requant_t *to;     // four
} mica_dsp_requants_t;

// Pairs of channels for one pair of pixels.
typedef struct {
    const void *x, *x_end;      // mica_dsp_thin: a stream; mica_dsp_thin_bytes: both pixels' patches
    const int8_t *w;            // rows as they are stored
    uint32_t row;               // from row to row
    uint32_t pairs;             // 1 or more
    int32_t *sums;              // of each pair of channels the first pixel's two, then the second's
} mica_dsp_thin_t;

// Patches of pairs of pixels. Words may lie at any address.
typedef struct {
    const int8_t *x0, *x1;      // of the two pixels of the first pair
    uint32_t *to;
    int32_t adjust0, adjust1;   // from behind a row of the patch to the next row
    uint32_t words, rows;       // of a row, of a patch; both 1 or more
    uint32_t pairs;             // 1 or more
    int32_t next0, next1;       // from behind a patch (adjusted) to the same pixel of the next pair
} mica_dsp_unpack_t;

// The same of 3 rows of 9 bytes, of pixels side by side.
typedef struct {
    const int8_t *x0, *x1;      // of the two pixels of the first pair
    uint32_t *to;
    uint32_t pairs;             // 1 or more
    uint32_t pitch;             // from row to row
    int32_t next;               // from the last row of a patch to the first of the same pixel of the next pair
} mica_dsp_unpack27_t;

// Bands of two rows of the image for four channels; the order is that in which depthwise.S loads them.
typedef struct {
    uint32_t *to;               // the first channel's word of the first column inside the image; moved
    int32_t row;                // the upper row of the first band, of which two follow each other; moved
    const int8_t *x;            // row 0 of the first of the channels
    uint32_t step;              // from column to column
    uint32_t height, pitch;     // rows of the image, and bytes of one
    uint32_t lead;              // 1: the first column inside the image is the second of its block; otherwise 0
    const uint32_t *outside;    // x_zero, four times
    uint32_t columns;           // inside the image, without `lead`
    uint32_t band;              // bytes from band to band
    uint32_t bands;             // that are left, 1 or more; moved
} mica_dsp_rows_t;

// The constants of a channel of a depthwise convolution; the order is that in which depthwise.S loads them. A channel
// whose shift is MICA_DSP_SHIFT takes one instruction less for each output.
#define MICA_DSP_SHIFT 10
typedef struct {
    uint32_t upper[3], lower[3];  // of each column (w[0], w[1]) and (w[1], w[2])
    int32_t bias;
    mica_dsp_requant_t requant;
} mica_dsp_taps_t;

// Where the constants of four channels come from.
typedef struct {
    const int8_t *w;            // nine of each channel
    const int32_t *bias, *mult;
    const int8_t *shift;
    mica_dsp_taps_t *to;
    int32_t rounding;           // 2 y_zero + 1
} mica_dsp_constants_t;

// Strips of the output of four channels: of two rows with stride 1, of one with stride 2.
typedef struct {
    const uint32_t *a, *b;      // the first strip's bands; each next strip begins one band further down
    int8_t *y;
    uint32_t step, pitch;       // from pixel to pixel, from row to row
    uint32_t windows;           // of a row, 1 or more
    uint32_t strips;            // 1 or more
    uint32_t last;              // stride 1: pitch, or 0 where the last strip has one row
    const mica_dsp_taps_t *taps;  // four
} mica_dsp_depthwise_t;

// Where two tiles of 2x2 outputs of four channels go.
typedef struct {
    int8_t *y[2];               // of the first channel; moved
    uint32_t column, row;       // from output to output
} mica_dsp_winograd_t;

// Sixteen positions of a transformed tile, of each pair of channels those of two tiles: 128 bytes.
void mica_dsp_winograd_input(const int8_t *x, uint32_t row, uint32_t step, uint32_t words, uint32_t *to);
void mica_dsp_winograd_weights(const int8_t *w, uint32_t step, uint32_t words, uint32_t *to, uint32_t column);
void mica_dsp_winograd(const uint32_t *x, const uint32_t *w, mica_dsp_winograd_t *args);
// Of mica_dsp_winograd: the end of its steps, what stores a position, what begins a column, what ends it all.
extern const uint32_t mica_dsp_winograd_code[4];
#define MICA_DSP_WINOGRAD_STEPS 8
#define MICA_DSP_WINOGRAD_STEP_CODE 44  // bytes

void mica_dsp_constants(const mica_dsp_constants_t *args);
void mica_dsp_rows(mica_dsp_rows_t *args);
void mica_dsp_depthwise1(const mica_dsp_depthwise_t *args);  // stride 1
void mica_dsp_depthwise2(const mica_dsp_depthwise_t *args);  // stride 2
// Sums over `words` * 4 elements: of pairs of x with `pairs` pairs of rows of weights, as they are stored.
void mica_dsp_dense(const uint32_t *x, const int8_t *w, uint32_t row, uint32_t words, uint32_t pairs, int32_t *sums);
void mica_dsp_gemm(const mica_dsp_gemm_t *args);
void mica_dsp_gemm1(const mica_dsp_gemm_t *args);  // of the first pixel of the only pair
void mica_dsp_thin(const mica_dsp_thin_t *args);
void mica_dsp_thin_bytes(const mica_dsp_thin_t *args);
void mica_dsp_weights(const int8_t *w, uint32_t row, uint32_t words, uint32_t *to);
uint32_t mica_dsp_requants(const mica_dsp_requants_t *args);
void mica_dsp_unpack(const mica_dsp_unpack_t *args);
void mica_dsp_unpack27(const mica_dsp_unpack27_t *args);

// As mica_requant_s8, of a step that claims FAST: |acc| < 2^29 and shift >= 1. SMMUL drops 32 bits of the product, so
// acc goes in doubled.
static inline int8_t mica_dsp_requantised(int32_t acc, int32_t mult, int32_t shift, int32_t zero, int32_t low,
    int32_t high) {
    int32_t r;
    __asm__ ("smmul %0, %1, %2" : "=r" (r) : "r" (2 * acc), "r" (mult));
    r = zero + (((r >> (shift - 1)) + 1) >> 1);
    return (int8_t)(r < low ? low : r > high ? high : r);
}

// n outputs, saturated to int8 already, to the channels' range.
static inline void mica_dsp_clamp(const mica_channels_t *ch, int8_t *y, uint32_t n) {
    int8_t low = ch->act_min, high = ch->act_max;
    if (low == -128 && high == 127) {
        return;
    }
    for (int8_t *end = y + n; y != end; ++y) {
        *y = *y < low ? low : *y > high ? high : *y;
    }
}

// Both int16 of a pair, each below 2^14, doubled.
static inline uint32_t mica_dsp_doubled(uint32_t pair) {
    return pair << 1 & 0xfffeffff;
}

#define MICA_CODE_PAIRS 256  // words of a table of them

// Of each byte of two codes of layout CODES4 the pair of their weights.
static inline void mica_dsp_code_pairs(uint32_t *to, const int8_t *table) {
    for (uint32_t second = 0; second < MICA_CODES; ++second) {
        for (uint32_t first = 0; first < MICA_CODES; ++first) {
            *to++ = (uint32_t)(uint16_t)table[first] | (uint32_t)table[second] << 16;
        }
    }
}

// Codes of four weights: two bytes, each the number of a pair.
static inline uint32_t mica_dsp_codes(const int8_t *w) {
    uint16_t both;
    __builtin_memcpy(&both, w, 2);
    return both;
}

// The same as mica_conv2d_s8_armv7em by Winograd's transform; false, and nothing done, where it does not apply or pay.
bool mica_conv2d_winograd_armv7em(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end, void *scratch,
    size_t scratch_bytes);
void mica_conv2d_s8_armv7em(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_armv7em(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_armv7em(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_add_s8_armv7em(const mica_add_s8_t *p, MICA_KERNEL_ARGS);
void mica_average_pool2d_s8_armv7em(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_max_pool2d_s8_armv7em(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS);

#endif

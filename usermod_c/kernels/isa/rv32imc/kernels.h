// mica: kernels for RV32IMC (ESP32-C3, Hazard3): their assembly, as C sees it.
#ifndef MICA_RV32IMC_KERNELS_H
#define MICA_RV32IMC_KERNELS_H

#include "../c32/kernels.h"

// Four channels over a stream of groups of four pixels. Offsets stand in gemm.S.
typedef struct {
    const uint32_t *x, *x_end;  // of each four elements the words of the four pixels
    const uint32_t *w, *w_end;  // mica_rv32_bias_t[2], 8 words for each four elements; at w_end mica_rv32_requant_t[4]
    int8_t *y;                  // the first pixel's
    uint32_t step;              // from pixel to pixel
} mica_rv32_gemm_t;

// What the sums of a pair of channels begin with: bias0 + bias1 * 2^16, and bias1.
typedef struct {
    uint32_t both, upper;
} mica_rv32_bias_t;

// How a sum becomes an int8: ((round + floor(sum * mult / 2^32)) >> shift) - 128, saturated.
typedef struct {
    int32_t mult, round, shift;
} mica_rv32_requant_t;

// The constants of channel o, whose shift is 2 or more: MULH drops 32 bits of the product.
static inline void mica_rv32_requant(const mica_channels_t *ch, uint32_t o, mica_rv32_requant_t *to) {
    int32_t shift = ch->shift[o] - 1;
    to->mult = ch->mult[o];
    to->round = (1 << (shift - 1)) + (ch->y_zero + 128) * (1 << shift);
    to->shift = shift;
}

// Whether all of n channels can be requantised so.
static inline bool mica_rv32_takes(const mica_channels_t *ch, uint32_t n) {
    if (!ch->fast) {
        return false;
    }
    for (const int8_t *s = ch->shift, *end = s + n; s != end; ++s) {
        if (*s < 2) {
            return false;
        }
    }
    return true;
}

// n outputs, saturated to int8 already, to the channels' range.
static inline void mica_rv32_clamp(const mica_channels_t *ch, int8_t *y, uint32_t n) {
    int8_t low = ch->act_min, high = ch->act_max;
    if (low == -128 && high == 127) {
        return;
    }
    for (int8_t *end = y + n; y != end; ++y) {
        *y = *y < low ? low : *y > high ? high : *y;
    }
}

// Four tiles of 2x2 outputs of four channels. Offsets stand in winograd.S.
typedef struct {
    int32_t bias, mult, round, shift;  // four times the bias; the sums are four times as large as well
} mica_rv32_winograd_constants_t;

typedef struct {
    const int16_t *x;           // of each input channel sixteen positions of four tiles
    const int16_t *w;           // of four channels
    int32_t *sums;              // sixteen times sixteen
    uint32_t bytes;             // 128 for each input channel
    const mica_rv32_winograd_constants_t *constants;  // four
    uint32_t column, row;       // from output to output
    int8_t *y[4];               // of each tile's first output and channel; moved
} mica_rv32_winograd_t;

void mica_rv32_winograd(mica_rv32_winograd_t *args);

// Rows of the output of one channel, from a padded plane of bytes. Offsets stand in depthwise.S.
typedef struct {
    const int8_t *x;            // the plane
    int8_t *y;
    uint32_t step;              // from pixel to pixel of y, whose rows follow one another
    const int8_t *weights;      // nine
    int32_t bias;
    mica_rv32_requant_t requant;
    uint32_t rows;              // of the output
    uint32_t next;              // bytes of the plane from row to row of the output
    uint32_t length;            // of a row of y
    uint32_t pitch;             // of the plane
} mica_rv32_depthwise_t;

// Eight outputs of a fully connected layer that claims FAST. Offsets stand in dense.S.
typedef struct {
    const int8_t *x;
    uint32_t length;            // of x, filled up with zeros to a multiple of four
    const int8_t *w;            // rows, as they are stored: each byte 128 too large
    uint32_t row;               // from row to row
    const int32_t *bias;
    int32_t begin;              // what every sum begins with beside the bias: -128 * the sum of x
    const int32_t *mult;
    const int8_t *shift;
    int8_t *y;
    int32_t zero;               // y_zero - act_min
    uint32_t range;             // act_max - act_min
    int32_t low;                // act_min
} mica_rv32_dense_t;

void mica_rv32_depthwise1(const mica_rv32_depthwise_t *args);  // stride 1
void mica_rv32_depthwise2(const mica_rv32_depthwise_t *args);  // stride 2
void mica_rv32_dense(const mica_rv32_dense_t *args);
void mica_rv32_gemm(const mica_rv32_gemm_t *args);
void mica_rv32_weights(const int8_t *w, uint32_t row, uint32_t words, uint32_t *to);

// The same as mica_conv2d_s8_rv32imc by Winograd's transform; false, and nothing done, where it does not apply or pay.
bool mica_conv2d_winograd_rv32imc(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end, void *scratch,
    size_t scratch_bytes);
void mica_conv2d_s8_rv32imc(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_rv32imc(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_rv32imc(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);

#endif

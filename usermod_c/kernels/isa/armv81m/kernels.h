// mica: kernels for Cortex-M with MVE (M55, M85; "Helium"): their assembly, as C sees it. Registers q0 to q7 are those
// of the FPU: who saves these for an interrupt or a thread saves them; VPR, too, is in the context that the core
// stacks.
#ifndef MICA_ARMV81M_KERNELS_H
#define MICA_ARMV81M_KERNELS_H

#include <arm_mve.h>

#include "../armv7em/kernels.h"

// Four channels over a stream of pairs of pixels: of each pair sixteen elements of the first, sixteen of the second,
// and so on. Offsets stand in gemm.S.
typedef struct {
    const int8_t *w[4];         // rows of weights
    uint32_t blocks;            // whole ones of sixteen elements
    int8_t *y;                  // the first pixel's outputs; moved
    uint32_t second, step;      // bytes to the second pixel's outputs, which are written first; to the next pair's
    int32_t zero;
    const int8_t *x_end, *x;
    uint32_t tail;              // elements beyond the whole blocks, 0 to 15; in x a block all the same
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t low, high;
} mica_mve_gemm_t;

typedef struct {
    const int8_t *x;
    uint32_t k;
    const int8_t *w;
    uint32_t row;               // from row to row
    int8_t *y;
    uint32_t fours, sign;       // of outputs, 1 or more; 0x80 where weights have 128 added, or 0
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t low, high, zero;
} mica_mve_dense_t;

// Pixels of a row of the output, or of two. Offsets stand in depthwise.S.
typedef struct {
    int8_t *y;
    uint32_t second, next;      // bytes to the pixel below, 0: none; from behind the last channel to the next pixel
    uint32_t pixels, fours;     // of channels; both 1 or more; pixels are counted down
    int32_t zero, low, high;
    const uint32_t *x;          // words of columns: of each channel four rows
    uint32_t column, step;      // bytes from column to column; from behind the channels of a window to the next window
    const int8_t *taps;         // 16 bytes a channel: of each column its three rows and a 0, then four of 0
    const int8_t *shift;        // negative
    const int32_t *bias, *mult;
} mica_mve_depthwise_t;

void mica_mve_gemm(mica_mve_gemm_t *args);
void mica_mve_dense(const mica_mve_dense_t *args);
void mica_mve_depthwise(mica_mve_depthwise_t *args);

// n bytes, of any alignment.
static inline void mica_mve_copy(int8_t *to, const int8_t *from, uint32_t n) {
    for (; n >= 16; n -= 16, to += 16, from += 16) {
        vstrbq_s8(to, vldrbq_s8(from));
    }
    if (n) {
        mve_pred16_t rest = vctp8q(n);
        vstrbq_p_s8(to, vldrbq_z_s8(from, rest), rest);
    }
}

// The same in blocks of sixteen, `from_step`, `to_step` apart, constants. The loop takes one instruction a block: LE.
#define MICA_MVE_BLOCKS(to, to_step, from, from_step, n) \
    __asm__ volatile ( \
        "dls lr, %2\n1:\tvldrb.8 q0, [%0], #" #from_step "\n\tvstrb.8 q0, [%1], #" #to_step "\n\tle lr, 1b" \
    : "+r" (from), "+r" (to) : "r" (n) : "lr", "q0", "memory")

// Sixteen weights, from codes of four in each halfword: the lower byte has weights 0 and 2, the upper one 1 and 3.
static inline int8x16_t mica_mve_decode(uint32x4_t codes, const int8_t *table) {
    codes = vandq_u32(vsliq_n_u32(codes, codes, 12), vdupq_n_u32(0x0f0f0f0f));
    return vldrbq_gather_offset_s8(table, vreinterpretq_u8_u32(codes));
}

// Bits from the last to the first.
static inline uint32_t mica_mve_turned(uint32_t v) {
    uint32_t turned;
    __asm__("rbit %0, %1" : "=r" (turned) : "r" (v));
    return turned;
}

void mica_conv2d_s8_armv81m(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_armv81m(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_armv81m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_add_s8_armv81m(const mica_add_s8_t *p, MICA_KERNEL_ARGS);
void mica_average_pool2d_s8_armv81m(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_max_pool2d_s8_armv81m(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_log_mel_s8_armv81m(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS);
void mica_pcen_s8_armv81m(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS);
void mica_axes_s8_armv81m(const mica_axes_s8_t *p, MICA_KERNEL_ARGS);

#endif

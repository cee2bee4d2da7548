// mica: kernels with AVX2 or AVX-512 VNNI, where the processor has them. Each function names the processor it is
// compiled for, so the files need no flags, and one build runs on every x86-64.
#ifndef MICA_X86_KERNELS_H
#define MICA_X86_KERNELS_H

#include "../c32/sum.h"
#include "../vector/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define MICA_X86
#endif

// From slow to fast.
typedef enum { MICA_X86_VECTOR, MICA_X86_AVX2, MICA_X86_VNNI } mica_x86_t;

// Kernels for all models from now on: the fastest that this processor has, up to `most`.
mica_x86_t mica_x86_limit(mica_x86_t most);
mica_x86_t mica_x86_choice(void);
const char *mica_x86_isa(void);

#ifdef MICA_X86

#define MICA_AVX2 __attribute__((target("avx2")))
#define MICA_VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni")))
#define MICA_BLOCK 16 // channels

#ifdef __clang__
#define MICA_UNROLLED _Pragma("unroll")
#else
#define MICA_UNROLLED _Pragma("GCC unroll 16")
#endif

// Windows over a copy of an image with its edges. Values are bytes with 128 more (VNNI), 16 bits each (AVX2) or plain
// bytes (depthwise). Distances in bytes; a piece is a run of values of one window side by side. Its last word may reach
// beyond it, where weights are 0.
typedef struct {
    const uint8_t *x;                // of the first pixel
    uint32_t width;                  // pixels of a row
    size_t pixel_step, row_step;     // to the next pixel, and to the first of the next row
    uint32_t rows, columns;          // pieces of a window
    size_t piece_row, piece_column;  // from piece to piece
    uint32_t values, steps;          // of a piece, and its words
} mica_windows_t;

// One block of channels for some pixels.
typedef struct {
    const mica_windows_t *x;
    const uint32_t *w;    // [pieces, steps, MICA_BLOCK] words of 4 or 2 values; depthwise: [taps / 2, MICA_BLOCK]
    const uint32_t *tap;  // depthwise: bytes from a window's first tap to each; `taps` is even, else 0
    uint32_t taps;
    uint32_t pixels;
    const int32_t *bias, *mult;  // [MICA_BLOCK]
    const int8_t *shift;         // [MICA_BLOCK], 1 or more
    int32_t zero, low, high;
    int32_t x_sum;        // of one pixel's values, for mica_dense_vnni
    uint32_t channels;    // of the block that there are
    int8_t *y;            // of the first pixel
    uint32_t pitch;       // bytes from pixel to pixel
} mica_block_t;

void mica_block_avx2(const mica_block_t *b);
void mica_block_vnni(const mica_block_t *b);

// Words of n weights of MICA_BLOCK rows; flip: 0x80 where they have 128 more.
void mica_pack_vnni(uint32_t *to, const int8_t *const *rows, uint32_t n, uint8_t flip);

// n values as windows want them.
void mica_ready_avx2(void *to, const int8_t *x, size_t n);
void mica_ready_vnni(void *to, const int8_t *x, size_t n);

// A pixel of a block: k values by rows of weights, `row` bytes apart; flip: 0x80: weights as they are, 0: 128 more.
void mica_dense_avx2(const mica_block_t *b, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip);
void mica_dense_vnni(const mica_block_t *b, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip);

// y[i] = low + clamp((a[i] * mult_a + b[i] * mult_b + offset) >> shift, 0, range)
void mica_sums_avx2(const mica_sum_t *s, const int8_t *a, const int8_t *b, int8_t *y, uint32_t n);

// All out_c channels of some pixels, whose shifts are 1 or more. packed: 4 * MICA_BLOCK bytes for each word of a window
void mica_gemm(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const mica_windows_t *x, uint32_t *packed,
    uint32_t pixels, int8_t *y);

// The same for depthwise windows, two taps a word; packed: 4 * MICA_BLOCK + 8 bytes for each.
void mica_depthwise(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const mica_windows_t *x,
    uint32_t *packed, uint32_t pixels, int8_t *y);
// The same for one pixel of k values, without scratch.
void mica_dense(mica_x86_t choice, const mica_channels_t *ch, uint32_t out_c, const int8_t *x, uint32_t k, int8_t *y);

void mica_add_s8_x86(const mica_add_s8_t *p, MICA_KERNEL_ARGS);
void mica_conv2d_s8_x86(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_x86(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_x86(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);

#endif

#endif

// mica: kernels with AVX2 or AVX-512 VNNI, where the processor has them. Functions say themselves for which processor they are
// compiled, so the files need no flags and a build runs on every x86-64.
#ifndef MICA_HOST_KERNELS_H
#define MICA_HOST_KERNELS_H

#include "../vector/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define MICA_HOST_X86
#endif

// In the order of speed.
typedef enum { MICA_HOST_VECTOR, MICA_HOST_AVX2, MICA_HOST_VNNI } mica_host_t;

// What the kernels use from now on, of all models: the fastest that this processor has, up to `most`.
mica_host_t mica_host_limit(mica_host_t most);
mica_host_t mica_host_choice(void);
const char *mica_host_name(mica_host_t choice);

#ifdef MICA_HOST_X86

#define MICA_AVX2 __attribute__((target("avx2")))
#define MICA_VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni")))

#ifdef __clang__
#define MICA_UNROLLED _Pragma("unroll")
#else
#define MICA_UNROLLED _Pragma("GCC unroll 8")
#endif

#define MICA_BLOCK 16 // channels

// One block of channels for some pixels. A word holds four values of 8 bits and 128 more (VNNI) or two of 16 bits (AVX2), of weights
// without the 128.
typedef struct {
    const uint32_t *x;    // [pixels, steps]
    const uint32_t *w;    // [steps, MICA_BLOCK]
    uint32_t steps, pixels;
    int32_t bias[MICA_BLOCK], mult[MICA_BLOCK], shift[MICA_BLOCK];  // shift: 1 or more, less 1
    int32_t zero, low, high;
    uint32_t channels;    // of the block that there are
    int8_t *y;            // of the first pixel
    uint32_t pitch;       // bytes from pixel to pixel
} mica_block_t;

void mica_block_avx2(const mica_block_t *b);
void mica_block_vnni(const mica_block_t *b);

// Values as words of a block's x: `rows` of k values, each filled up to whole words.
void mica_words_avx2(uint32_t *to, const int8_t *x, uint32_t k, uint32_t rows);
void mica_words_vnni(uint32_t *to, const int8_t *x, uint32_t k, uint32_t rows);

// sum[0] to [3]: x with four rows of weights, of which `flip` (0 or 0x80) is to be exclusive-ored to each; `row` bytes from row to row.
void mica_dots_avx2(int32_t *sum, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip);
void mica_dots_vnni(int32_t *sum, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip);

// One pixel of a depthwise convolution, eight channels or more. x: addresses of the taps, of an odd number one more; w: for each eight
// channels [pairs of taps, 8, 2].
void mica_taps_avx2(const mica_channels_t *ch, uint32_t channels, const int8_t *const *x, const int16_t *w, uint32_t taps, int8_t *y);

// y = out(acc) of eight channels that begin with c, whose shifts are 1 or more.
void mica_out_avx2(const mica_channels_t *ch, uint32_t c, const int32_t *acc, int8_t *y);

// Words of k values.
static inline uint32_t mica_steps(mica_host_t choice, uint32_t k) {
    return choice == MICA_HOST_VNNI ? (k + 3) / 4 : (k + 1) / 2;
}

// Bytes that mica_gemm wants for the weights of a block.
static inline size_t mica_packed_bytes(uint32_t steps) {
    return 4 * MICA_BLOCK * (size_t)steps;
}

// Whether all of n channels shift by 1 or more, which the kernels of this folder want.
bool mica_shifts_down(const mica_channels_t *ch, uint32_t n);

// All channels of some pixels, x as words. Each row of weights has k values in `row` bytes; packed: mica_packed_bytes.
typedef struct {
    const mica_channels_t *ch;
    uint32_t out_c, k, row;
    uint8_t flip;
    uint32_t *packed;
} mica_gemm_t;

void mica_gemm(mica_host_t choice, const mica_gemm_t *g, const uint32_t *x, uint32_t pixels, int8_t *y);
void mica_words(mica_host_t choice, uint32_t *to, const int8_t *x, uint32_t k, uint32_t rows);

void mica_conv2d_s8_host(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_host(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_host(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_add_s8_host(const mica_add_s8_t *p, MICA_KERNEL_ARGS);

#endif

#endif

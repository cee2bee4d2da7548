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

// Windows over values of x that stand ready: bytes with 128 more (VNNI) or 16 bits each (AVX2). Distances in bytes; a piece is a run of
// values of one window side by side. Its last word may reach beyond it, where weights are 0.
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
    const uint32_t *w;    // [pieces, steps, MICA_BLOCK] words: four values of 8 bits or two of 16
    uint32_t pixels;
    int32_t bias[MICA_BLOCK], mult[MICA_BLOCK], shift[MICA_BLOCK];  // shift: 1 or more, less 1
    int32_t zero, low, high;
    uint32_t channels;    // of the block that there are
    int8_t *y;            // of the first pixel
    uint32_t pitch;       // bytes from pixel to pixel
} mica_block_t;

// A word at any address.
typedef int32_t __attribute__((may_alias, aligned(1))) mica_loose_t;

// Where the windows of the next n pixels begin; the first one stands for those that `most` has more. `column`: of the first pixel.
static inline void mica_next_pixels(const mica_windows_t *w, const uint8_t **at, uint32_t *column, const uint8_t **x, uint32_t n, uint32_t most) {
    for (uint32_t i = 0; i < most; ++i) {
        x[i] = i < n ? *at : x[0];
        if (i < n) {
            *at += w->pixel_step;
            if (++*column == w->width) {
                *column = 0;
                *at += (ptrdiff_t)w->row_step - (ptrdiff_t)(w->width * w->pixel_step);
            }
        }
    }
}

void mica_block_avx2(const mica_block_t *b);
void mica_block_vnni(const mica_block_t *b);

// n values as windows want them.
void mica_ready_avx2(void *to, const int8_t *x, size_t n);
void mica_ready_vnni(void *to, const int8_t *x, size_t n);

// sum[0] to [3]: x with four rows of weights, of which `flip` (0 or 0x80) is to be exclusive-ored to each; `row` bytes from row to row.
void mica_dots_avx2(int32_t *sum, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip);
void mica_dots_vnni(int32_t *sum, const int8_t *x, const int8_t *w, uint32_t row, uint32_t k, uint8_t flip);

// One pixel of a depthwise convolution, eight channels or more. x: addresses of the taps, of an odd number one more; w: for each eight
// channels [pairs of taps, 8, 2].
void mica_taps_avx2(const mica_channels_t *ch, uint32_t channels, const int8_t *const *x, const int16_t *w, uint32_t taps, int8_t *y);

// y = out(acc) of eight channels that begin with c, whose shifts are 1 or more.
void mica_out_avx2(const mica_channels_t *ch, uint32_t c, const int32_t *acc, int8_t *y);

// Bytes of a value that stands ready.
static inline uint32_t mica_value_bytes(mica_host_t choice) {
    return choice == MICA_HOST_VNNI ? 1 : 2;
}

// Words of n values.
static inline uint32_t mica_steps(mica_host_t choice, uint32_t n) {
    const uint32_t each = 4 / mica_value_bytes(choice);
    return (n + each - 1) / each;
}

static inline size_t mica_packed_bytes(const mica_windows_t *w) {
    return 4 * MICA_BLOCK * (size_t)w->rows * w->columns * w->steps;
}

// Whether all of n channels shift by 1 or more, which the blocks want.
bool mica_shifts_down(const mica_channels_t *ch, uint32_t n);

// All channels of some pixels. Each row of weights has `row` bytes, to be exclusive-ored with `flip`; packed: mica_packed_bytes.
typedef struct {
    const mica_channels_t *ch;
    uint32_t out_c, row;
    uint8_t flip;
    uint32_t *packed;
} mica_gemm_t;

void mica_gemm(mica_host_t choice, const mica_gemm_t *g, const mica_windows_t *x, uint32_t pixels, int8_t *y);
void mica_ready(mica_host_t choice, void *to, const int8_t *x, size_t n);

void mica_conv2d_s8_host(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_host(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_host(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_add_s8_host(const mica_add_s8_t *p, MICA_KERNEL_ARGS);

#endif

#endif

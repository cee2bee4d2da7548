// mica: kernels in plain C for 32-bit cores with a fast multiplier and a dozen registers, and nothing else in particular.
#ifndef MICA_C32_KERNELS_H
#define MICA_C32_KERNELS_H

#include "mica_kernels.h"

void mica_conv2d_s8_c32(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_c32(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_c32(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_average_pool2d_s8_c32(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS);

// A word of four bytes. Both kinds of access are to the same objects, so the compiler must not assume otherwise.
typedef uint32_t __attribute__((may_alias)) mica_word_t;

// n bytes, of any alignment.
static inline void mica_copy(int8_t *to, const int8_t *from, uint32_t n) {
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0) {
        for (; n >= 4; n -= 4, to += 4, from += 4) {
            *(mica_word_t *)(void *)to = *(const mica_word_t *)(const void *)from;
        }
    }
    for (; n; --n) {
        *to++ = *from++;
    }
}

static inline void mica_fill(int8_t *to, int8_t value, uint32_t n) {
    for (; n; --n) {
        *to++ = value;
    }
}

#endif

// mica: square roots and logarithms of integers, for kernels that need a few of them per row. No division, no table.
#ifndef MICA_INTEGER_MATH_H
#define MICA_INTEGER_MATH_H

#include "mica_port.h"

// sqrt(v) rounded to the nearest integer, at most 65535. One bit a turn, as with pencil and paper.
static inline uint32_t mica_root(uint32_t v) {
    uint32_t root = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 2) {
        if (v >= root + bit) {
            v -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return v > root && root < 65535 ? root + 1 : root;  // what is left is v - root^2
}

// a * b >> 20 rounded down, its low 32 bits. Where products of 64 bits are calls (ARMv6-M), from halves of 16 bits.
static inline int32_t mica_product_20(int32_t a, int32_t b) {
    #if defined(__ARM_ARCH_6M__) || defined(MICA_TEST_HALVES)
    const int32_t a_low = a & 0xffff, a_high = a >> 16, b_low = b & 0xffff, b_high = b >> 16;
    const uint32_t low = (uint32_t)a_low * (uint32_t)b_low;
    const int32_t one = a_high * b_low + (int32_t)(low >> 16);  // at most 32767 * 65535 + 65535 < 2^31
    const int32_t two = a_low * b_high + (one & 0xffff);
    const uint32_t high = (uint32_t)(a_high * b_high + (one >> 16) + (two >> 16));
    return (int32_t)(high << 12 | ((uint32_t)two & 0xffff) >> 4);
    #else
    return (int32_t)((int64_t)a * b >> 20);
    #endif
}

// 2^16 * log2(v) rounded down, v >= 1: the exponent, then 16 binary places, one squaring each.
static inline uint32_t mica_log2(uint32_t v) {
    uint32_t log = 31;
    for (; v >> 31 == 0; v <<= 1) {
        --log;
    }
    for (uint32_t i = 0; i < 16; ++i) {
        uint64_t square = (uint64_t)v * v;  // v in [1, 2) times 2^31, so this is in [1, 4) times 2^62
        uint32_t two = (uint32_t)(square >> 63);
        v = (uint32_t)(square >> (31 + two));
        log = log << 1 | two;
    }
    return log;
}

#endif

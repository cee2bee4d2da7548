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

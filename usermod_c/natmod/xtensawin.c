// What GCC calls on Xtensa with register windows, beside boards/common/qemu/xtensa_libgcc.c: no libgcc of this calling
// convention is to be had without Espressif's tools. tests/usermod/test_native.py compares it with this computer's arithmetic.
#include <stdint.h>

#ifndef LIBGCC
#define LIBGCC(name) __##name
#endif

typedef union {
    uint64_t u;
    struct {
        uint32_t low, high; // little endian
    } half;
} word64_t;

uint64_t LIBGCC(ashldi3)(uint64_t x, int n);
uint64_t LIBGCC(lshrdi3)(uint64_t x, int n);
int64_t LIBGCC(ashrdi3)(int64_t x, int n);

// n in [0, 63], for all three.
uint64_t LIBGCC(ashldi3)(uint64_t x, int n) {
    word64_t w = { x };
    if (n >= 32) {
        w.half.high = w.half.low << (n - 32);
        w.half.low = 0;
    } else if (n > 0) {
        w.half.high = w.half.high << n | w.half.low >> (32 - n);
        w.half.low <<= n;
    }
    return w.u;
}

uint64_t LIBGCC(lshrdi3)(uint64_t x, int n) {
    word64_t w = { x };
    if (n >= 32) {
        w.half.low = w.half.high >> (n - 32);
        w.half.high = 0;
    } else if (n > 0) {
        w.half.low = w.half.low >> n | w.half.high << (32 - n);
        w.half.high >>= n;
    }
    return w.u;
}

int64_t LIBGCC(ashrdi3)(int64_t x, int n) {
    uint64_t flip = 0 - (uint64_t)(x < 0);
    return (int64_t)(LIBGCC(lshrdi3)((uint64_t)x ^ flip, n) ^ flip);
}

uint32_t LIBGCC(bswapsi2)(uint32_t x);

uint32_t LIBGCC(bswapsi2)(uint32_t x) {
    volatile uint32_t low = x << 16; // in one expression the compiler sees a swap of bytes, and calls this function for it
    const uint32_t halves = low | x >> 16;
    return (halves & 0x00FF00FF) << 8 | (halves >> 8 & 0x00FF00FF);
}

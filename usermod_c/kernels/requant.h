// mica: from an int32 accumulator to an int8. The one home in C of the rounding rule (SPEC.md, Requantisation).
#ifndef MICA_REQUANT_H
#define MICA_REQUANT_H

#include "mica_port.h"

static inline int32_t mica_clamp(int32_t v, int32_t low, int32_t high) {
    return v < low ? low : v > high ? high : v;
}

// clamp(zero + ((acc * mult + 2^(30+shift)) >> (31+shift)), low, high), rounding once, halves up; low, high: int8.
//   acc any int32; mult in [0, 2^31); shift in [-30, 31]
// shift >= 1: flooring may be nested, so the product is first cut to t = floor(acc * mult / 2^31), which fits an int32,
// and no 64-bit shift by a variable amount (a library call on small cores) remains. |t| <= 2^31 - 2, so t + 1 cannot
// overflow. shift < 1: the result may leave the int32; it is cut at +-2^30, which the clamp to int8 cannot tell from
// the true value.
static inline int8_t mica_requant_s8(int32_t acc, int32_t mult, int32_t shift, int32_t zero, int32_t low,
    int32_t high) {
    int64_t product = (int64_t)acc * mult;
    int32_t r;
    if (shift >= 1) {
        int32_t t = (int32_t)(product >> 31);
        r = ((t >> (shift - 1)) + 1) >> 1;
    } else {
        int64_t wide = (product + ((int64_t)1 << (30 + shift))) >> (31 + shift);
        int64_t limit = (int64_t)1 << 30;
        r = (int32_t)(wide < -limit ? -limit : wide > limit ? limit : wide);
    }
    return (int8_t)mica_clamp(zero + r, low, high);
}

// As mica_requant_s8 of a step that claims FAST: |acc| < 2^29 and shift >= 1, so that the upper word of a product will
// do, or four products of 16 bits where there is no such instruction and 64 bits are a call into a library.
static inline int8_t mica_requant_fast(int32_t acc, int32_t mult, int32_t shift, int32_t zero, int32_t low,
    int32_t high) {
    #ifdef __ARM_ARCH_6M__
    int32_t al = (int16_t)acc, ah = (acc - al) >> 16, ml = mult & 0xffff, mh = mult >> 16;
    int32_t t = 2 * ah * mh + ((al * mh + ah * ml + ((al * ml) >> 16)) >> 15);
    #else
    int32_t t = (int32_t)((int64_t)(2 * acc) * mult >> 32);
    #endif
    t = zero + (((t >> (shift - 1)) + 1) >> 1);
    return (int8_t)(t < low ? low : t > high ? high : t);
}

#endif

// mica: a float32 feature on a grid of integers, without floating point. The one home of features_s8's rule in C.
#ifndef MICA_PLACE_H
#define MICA_PLACE_H

#include "mica_port.h"

#define MICA_PLACE_FRACTION 8
#define MICA_PLACE_SATURATED ((int64_t)1 << 40)

static inline bool mica_is_nan(int32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000;
}

// product * 2^shift, rounded halves up where shift is negative, within +-MICA_PLACE_SATURATED.
static inline int64_t mica_shifted(int64_t product, int32_t shift) {
    if (shift < 0) {
        const uint32_t down = shift < -62 ? 62 : (uint32_t)-shift;
        product = (product + ((int64_t)1 << (down - 1))) >> down;
    } else {
        const int64_t most = shift > 40 ? 0 : MICA_PLACE_SATURATED >> shift;
        if (product > most) {
            return MICA_PLACE_SATURATED;
        }
        if (product < -most) {
            return -MICA_PLACE_SATURATED;
        }
        product = product == 0 ? 0 : product * ((int64_t)1 << shift);
    }
    return product > MICA_PLACE_SATURATED ? MICA_PLACE_SATURATED
        : product < -MICA_PLACE_SATURATED ? -MICA_PLACE_SATURATED : product;
}

// (x * scale * 2^exponent + offset + 2^7) >> 8 of a float32 x that is no NaN, by its bits. scale > -2^31
static inline int64_t mica_place(int32_t bits, int32_t scale, int32_t exponent, int32_t offset) {
    const int32_t power = bits >> 23 & 255;
    const int32_t mantissa = (bits & 0x7fffff) | (power ? 0x800000 : 0);
    const int64_t product = (int64_t)(bits < 0 ? -mantissa : mantissa) * scale;
    const int64_t v = mica_shifted(product, (power ? power : 1) - 150 + exponent);
    return (v + offset + (1 << (MICA_PLACE_FRACTION - 1))) >> MICA_PLACE_FRACTION;
}

#endif

// mica: from a sum of 64 bits to an int16 or int8; SPEC.md, Requantisation.
#include "wide.h"

#if !defined(MICA_WITHOUT_CONV2D_S16) || !defined(MICA_WITHOUT_POOL_S16) || !defined(MICA_WITHOUT_WIDEN_S16) \
    || !defined(MICA_WITHOUT_NARROW_S8)

int32_t mica_requant_s16(int64_t acc, int32_t mult, int32_t shift, int32_t low, int32_t high) {
    const int64_t v = (acc * mult + ((int64_t)1 << (30 + shift))) >> (31 + shift);
    return v < low ? low : v > high ? high : (int32_t)v;
}

#endif

// Division of floats for Cortex-M0: libgcc's has a table of addresses in its code, which mpy_ld.py does not take.
// With register windows (xtensawin.c) there is no libgcc. Rounds to nearest, ties to even, as IEEE 754 and every other
// float division that a model meets; any NaN is the quiet one.
#include <stdint.h>
#include <string.h>

#ifndef FDIV // what the compiler calls
#ifdef __XTENSA__
#define FDIV __divsf3
#else
#define FDIV __aeabi_fdiv
#endif
#endif

#define INFINITE (0x7f800000u)
#define QUIET_NAN (0x7fc00000u)

// Significand with its leading one at bit 23, and the exponent that goes with it; not for 0.
static uint32_t normalised(uint32_t bits, int32_t *exponent) {
    uint32_t m = bits & 0x007fffffu;
    *exponent = (int32_t)(bits >> 23);
    if (*exponent != 0) {
        return m | 0x00800000u;
    }
    for (*exponent = 1; (m & 0x00800000u) == 0; m <<= 1) {
        --*exponent;
    }
    return m;
}

static uint32_t divide(uint32_t a, uint32_t b) {
    if (a > INFINITE || b > INFINITE || (a == b && (a == 0 || a == INFINITE))) {
        return QUIET_NAN;
    }
    if (a == INFINITE || b == 0) {
        return INFINITE;
    }
    if (b == INFINITE || a == 0) {
        return 0;
    }
    int32_t exponent_a, exponent_b;
    uint32_t rest = normalised(a, &exponent_a);
    const uint32_t by = normalised(b, &exponent_b);
    int32_t exponent = exponent_a - exponent_b + 127;
    if (rest < by) {
        rest <<= 1;
        exponent--;
    }
    uint32_t q = 0; // 26 bits: the significand, one for rounding, one more; what is left is below all of them
    for (int i = 0; i < 26; i++) {
        q <<= 1;
        if (rest >= by) {
            rest -= by;
            q |= 1;
        }
        rest <<= 1;
    }
    q |= rest != 0; // sticky
    if (exponent >= 255) {
        return INFINITE;
    }
    if (exponent < 1) { // a subnormal, or nothing
        const int32_t down = 1 - exponent;
        q = down > 26 ? 1 : (q >> down) | ((q & ((1u << down) - 1)) != 0);
        exponent = 0;
    } else {
        exponent--; // the significand's leading one adds it back
    }
    uint32_t bits = ((uint32_t)exponent << 23) + (q >> 2);
    const uint32_t below = q & 3;
    return bits + (below > 2 || (below == 2 && (bits & 1))); // may carry into the exponent, which is right
}

float FDIV(float x, float y) {
    uint32_t a, b;
    memcpy(&a, &x, sizeof(a));
    memcpy(&b, &y, sizeof(b));
    uint32_t bits = divide(a & 0x7fffffffu, b & 0x7fffffffu);
    if (bits != QUIET_NAN) {
        bits |= (a ^ b) & 0x80000000u;
    }
    float z;
    memcpy(&z, &bits, sizeof(z));
    return z;
}

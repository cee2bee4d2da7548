// What GCC calls on Xtensa with register windows, beside fdiv.c and l2f.c: no libgcc of this calling convention
// is to be had without Espressif's tools. tests/usermod/test_native.py compares both.
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

uint64_t LIBGCC(umulsidi3)(uint32_t a, uint32_t b) {
    uint32_t a_low = a & 0xffff, a_high = a >> 16, b_low = b & 0xffff, b_high = b >> 16;
    uint32_t low = a_low * b_low;
    uint32_t middle = a_high * b_low + (low >> 16); // no sum here can wrap
    uint32_t other = a_low * b_high + (middle & 0xffff);
    word64_t r;
    r.half.low = other << 16 | (low & 0xffff);
    r.half.high = a_high * b_high + (middle >> 16) + (other >> 16);
    return r.u;
}

uint64_t LIBGCC(muldi3)(uint64_t a, uint64_t b) {
    word64_t x = { a }, y = { b };
    word64_t r = { (uint64_t)x.half.low * y.half.low };
    r.half.high += x.half.low * y.half.high + x.half.high * y.half.low;
    return r.u;
}

uint64_t LIBGCC(udivdi3)(uint64_t n, uint64_t d) {
    uint64_t q = 0, rest = 0;
    for (int i = 63; i >= 0; i--) {
        uint64_t carry = rest >> 63;
        rest = rest << 1 | (n >> i & 1);
        if (carry || rest >= d) {
            rest -= d;
            q |= (uint64_t)1 << i;
        }
    }
    return q;
}

int64_t LIBGCC(divdi3)(int64_t n, int64_t d) {
    uint64_t flip_n = 0 - (uint64_t)(n < 0), flip_d = 0 - (uint64_t)(d < 0);
    uint64_t q = LIBGCC(udivdi3)(((uint64_t)n ^ flip_n) - flip_n, ((uint64_t)d ^ flip_d) - flip_d);
    return (int64_t)((q ^ flip_n ^ flip_d) - (flip_n ^ flip_d));
}

uint64_t LIBGCC(umoddi3)(uint64_t n, uint64_t d) {
    return n - LIBGCC(udivdi3)(n, d) * d;
}

int64_t LIBGCC(moddi3)(int64_t n, int64_t d) {
    return (int64_t)((uint64_t)n - (uint64_t)LIBGCC(divdi3)(n, d) * (uint64_t)d);
}

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

uint32_t LIBGCC(bswapsi2)(uint32_t x) {
    volatile uint32_t low = x << 16; // in one expression GCC sees a swap of bytes, and calls this function
    const uint32_t halves = low | x >> 16;
    return (halves & 0x00FF00FF) << 8 | (halves >> 8 & 0x00FF00FF);
}

uint64_t LIBGCC(bswapdi2)(uint64_t x) {
    return (uint64_t)LIBGCC(bswapsi2)((uint32_t)x) << 32 | LIBGCC(bswapsi2)((uint32_t)(x >> 32));
}

int LIBGCC(popcountsi2)(uint32_t x) {
    int n = 0;
    for (; x != 0; x &= x - 1) {
        n++;
    }
    return n;
}

// --- doubles: the float unit has none, and MicroPython stores them -------------------------------------

typedef union {
    double f;
    uint64_t u;
} real64_t;

typedef union {
    float f;
    uint32_t u;
} real32_t;

double LIBGCC(floatsidf)(int32_t x) {
    uint32_t m = x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
    uint64_t exponent = 1023 + 31;
    real64_t r = { 0 };
    for (; m != 0 && !(m & 0x80000000u); m <<= 1) {
        exponent--;
    }
    if (m != 0) {
        r.u = (uint64_t)(x < 0) << 63 | exponent << 52 | (uint64_t)(m & 0x7fffffffu) << 21;
    }
    return r.f;
}

double LIBGCC(extendsfdf2)(float x) {
    real32_t of = { x };
    uint32_t m = of.u & 0x7fffffffu; // exponent and significand
    real64_t r = { 0 };
    if (m > 0x7f800000u) {
        m |= 0x00400000u; // a quiet NaN
    }
    if (m >= 0x00800000u) {
        r.u = ((uint64_t)m << 29) + ((uint64_t)(m >= 0x7f800000u ? 0x7ff - 0xff : 1023 - 127) << 52);
    } else if (m != 0) { // m times 2^-149
        r.f = LIBGCC(floatsidf)((int32_t)m);
        r.u -= (uint64_t)149 << 52;
    }
    r.u |= (uint64_t)(of.u >> 31) << 63;
    return r.f;
}

// To nearest, ties to even.
float LIBGCC(truncdfsf2)(double x) {
    real64_t of = { x };
    uint64_t m = of.u & 0xfffffffffffffu;
    uint32_t sign = (uint32_t)(of.u >> 32) & 0x80000000u;
    int exponent = (int)(of.u >> 52 & 0x7ff) - 1023 + 127;
    int cut = 29;
    real32_t r = { 0 };
    if (exponent == 0x7ff - 1023 + 127 && m != 0) {
        r.u = 0x7fc00000u;
    } else if (exponent >= 255) {
        r.u = 0x7f800000u;
    } else if (exponent > -24) {
        m |= (uint64_t)1 << 52; // the leading 1, which adds itself to the exponent below, as does a carry from rounding
        if (exponent < 1) {
            cut += 1 - exponent;
            exponent = 1;
        }
        uint64_t half = (uint64_t)1 << (cut - 1), rest = m & (2 * half - 1);
        r.u = ((uint32_t)exponent << 23) - 0x800000u + (uint32_t)(m >> cut);
        r.u += rest > half || (rest == half && (r.u & 1));
    }
    r.u |= sign;
    return r.f;
}

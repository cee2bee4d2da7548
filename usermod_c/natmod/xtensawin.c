// What GCC calls on Xtensa with register windows, beside fdiv.c and l2f.c: no libgcc of this calling convention
// is to be had without Espressif's tools. tests/usermod/test_native.py compares it with this computer's arithmetic.
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

uint64_t LIBGCC(umulsidi3)(uint32_t a, uint32_t b);
uint64_t LIBGCC(muldi3)(uint64_t a, uint64_t b);
uint64_t LIBGCC(udivdi3)(uint64_t n, uint64_t d);
uint64_t LIBGCC(umoddi3)(uint64_t n, uint64_t d);
int64_t LIBGCC(divdi3)(int64_t n, int64_t d);
int64_t LIBGCC(moddi3)(int64_t n, int64_t d);
uint64_t LIBGCC(ashldi3)(uint64_t x, int n);
uint64_t LIBGCC(lshrdi3)(uint64_t x, int n);
int64_t LIBGCC(ashrdi3)(int64_t x, int n);

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

static uint64_t divide(uint64_t n, uint64_t d, uint64_t *remainder) {
    uint64_t q = 0, r = 0;
    for (int i = 63; i >= 0; i--) {
        uint64_t carry = r >> 63;
        r = r << 1 | (n >> i & 1);
        if (carry || r >= d) {
            r -= d;
            q |= (uint64_t)1 << i;
        }
    }
    *remainder = r;
    return q;
}

uint64_t LIBGCC(udivdi3)(uint64_t n, uint64_t d) {
    uint64_t remainder;
    return divide(n, d, &remainder);
}

uint64_t LIBGCC(umoddi3)(uint64_t n, uint64_t d) {
    uint64_t remainder;
    (void)divide(n, d, &remainder);
    return remainder;
}

static uint64_t magnitude(int64_t x) {
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

int64_t LIBGCC(divdi3)(int64_t n, int64_t d) {
    uint64_t q = LIBGCC(udivdi3)(magnitude(n), magnitude(d));
    return (int64_t)((n ^ d) < 0 ? 0 - q : q);
}

int64_t LIBGCC(moddi3)(int64_t n, int64_t d) {
    uint64_t r = LIBGCC(umoddi3)(magnitude(n), magnitude(d));
    return (int64_t)(n < 0 ? 0 - r : r);
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

uint32_t LIBGCC(bswapsi2)(uint32_t x);
uint64_t LIBGCC(bswapdi2)(uint64_t x);
int LIBGCC(popcountsi2)(uint32_t x);
double LIBGCC(extendsfdf2)(float x);
double LIBGCC(floatsidf)(int32_t x);
float LIBGCC(truncdfsf2)(double x);

uint32_t LIBGCC(bswapsi2)(uint32_t x) {
    volatile uint32_t low = x << 16; // in one expression the compiler sees a swap of bytes, and calls this function for it
    const uint32_t halves = low | x >> 16;
    return (halves & 0x00FF00FF) << 8 | (halves >> 8 & 0x00FF00FF);
}

uint64_t LIBGCC(bswapdi2)(uint64_t x) {
    word64_t w = { x };
    word64_t r = { LIBGCC(bswapsi2)(w.half.high) };
    r.half.high = LIBGCC(bswapsi2)(w.half.low);
    return r.u;
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

// The significand m has its leading 1 at bit 31.
static double packed(uint32_t sign, int exponent, uint32_t m) {
    real64_t r;
    r.u = (uint64_t)(sign | (uint32_t)exponent << 20) << 32 | (uint64_t)(m & 0x7fffffffu) << 21;
    return r.f;
}

double LIBGCC(extendsfdf2)(float x) {
    real32_t of = { x };
    uint32_t sign = of.u & 0x80000000u, m = of.u << 8;
    int exponent = (int)(of.u >> 23 & 0xff);
    if (exponent == 0xff) {
        return packed(sign, 0x7ff, (m & 0x7fffffffu) != 0 ? m | 0x40000000u : 0);
    }
    if (exponent != 0) {
        return packed(sign, exponent - 127 + 1023, m);
    }
    if (m == 0) {
        return packed(sign, 0, 0);
    }
    for (exponent = 1; !(m & 0x80000000u); m <<= 1) {
        exponent--;
    }
    return packed(sign, exponent - 127 + 1023, m);
}

double LIBGCC(floatsidf)(int32_t x) {
    uint32_t m = x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
    int exponent = 1023 + 31;
    if (m == 0) {
        return packed(0, 0, 0);
    }
    for (; !(m & 0x80000000u); m <<= 1) {
        exponent--;
    }
    return packed(x < 0 ? 0x80000000u : 0, exponent, m);
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

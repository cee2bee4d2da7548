// What Debian's libgcc for the lx106 leaves out of what GCC calls: integer division, 64-bit products, and most of
// single-precision arithmetic, which rounds to nearest, ties to even, as IEEE 754 has it.
// tests/boards/test_xtensa_libgcc.py compares it with this computer's own arithmetic.

#include <stdint.h>

typedef union {
    float f;
    uint32_t u;
} float_bits_t;

typedef union {
    uint64_t u;
    struct {
        uint32_t low, high; // little endian
    } half;
} double_word_t;

// --- integers ---------------------------------------------------------------------------------------

uint64_t __umulsidi3(uint32_t a, uint32_t b) {
    uint32_t a_low = a & 0xffff, a_high = a >> 16, b_low = b & 0xffff, b_high = b >> 16;
    uint32_t low = a_low * b_low;
    uint32_t middle = a_high * b_low + (low >> 16); // no sum here can wrap
    uint32_t other = a_low * b_high + (middle & 0xffff);
    double_word_t r;
    r.half.low = other << 16 | (low & 0xffff);
    r.half.high = a_high * b_high + (middle >> 16) + (other >> 16);
    return r.u;
}

uint64_t __muldi3(uint64_t a, uint64_t b) {
    double_word_t x = { a }, y = { b };
    double_word_t r = { __umulsidi3(x.half.low, y.half.low) };
    r.half.high += x.half.low * y.half.high + x.half.high * y.half.low;
    return r.u;
}

static uint32_t divide(uint32_t n, uint32_t d, uint32_t *remainder) {
    uint32_t q = 0, r = 0;
    for (int i = 31; i >= 0; i--) {
        uint32_t carry = r >> 31;
        r = r << 1 | (n >> i & 1);
        if (carry || r >= d) {
            r -= d;
            q |= (uint32_t)1 << i;
        }
    }
    *remainder = r;
    return q;
}

uint32_t __udivsi3(uint32_t n, uint32_t d) {
    uint32_t remainder;
    return divide(n, d, &remainder);
}

uint32_t __umodsi3(uint32_t n, uint32_t d) {
    uint32_t remainder;
    (void)divide(n, d, &remainder);
    return remainder;
}

static uint32_t magnitude(int32_t x) {
    return x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
}

int32_t __divsi3(int32_t n, int32_t d) {
    uint32_t q = __udivsi3(magnitude(n), magnitude(d));
    return (int32_t)((n ^ d) < 0 ? 0 - q : q);
}

int32_t __modsi3(int32_t n, int32_t d) {
    uint32_t r = __umodsi3(magnitude(n), magnitude(d));
    return (int32_t)(n < 0 ? 0 - r : r);
}

static uint64_t divide_long(uint64_t n, uint64_t d, uint64_t *remainder) {
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

uint64_t __udivdi3(uint64_t n, uint64_t d) {
    uint64_t remainder;
    return divide_long(n, d, &remainder);
}

uint64_t __umoddi3(uint64_t n, uint64_t d) {
    uint64_t remainder;
    (void)divide_long(n, d, &remainder);
    return remainder;
}

static uint64_t magnitude_long(int64_t x) {
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

int64_t __divdi3(int64_t n, int64_t d) {
    uint64_t q = __udivdi3(magnitude_long(n), magnitude_long(d));
    return (int64_t)((n ^ d) < 0 ? 0 - q : q);
}

int64_t __moddi3(int64_t n, int64_t d) {
    uint64_t r = __umoddi3(magnitude_long(n), magnitude_long(d));
    return (int64_t)(n < 0 ? 0 - r : r);
}

// --- single precision -------------------------------------------------------------------------------
// In between, a number is sign, exponent as stored, and a significand whose leading 1 is bit 30: 7 bits below those
// that are stored, the lowest of which is set when anything at all lies below it ("sticky").

#define SIGN (0x80000000u)
#define INFINITY_BITS (0x7f800000u)
#define NAN_BITS (0x7fc00000u)

static uint32_t shift_right_sticky(uint32_t m, int n) {
    if (n <= 0) {
        return m;
    }
    return n > 31 ? m != 0 : m >> n | ((m << (32 - n)) != 0);
}

static float from_bits(uint32_t u) {
    float_bits_t r;
    r.u = u;
    return r.f;
}

static uint32_t to_bits(float f) {
    float_bits_t r;
    r.f = f;
    return r.u;
}

// Normalises, rounds and packs; m is not 0.
static float packed(uint32_t sign, int exponent, uint32_t m) {
    if (m & 0x80000000u) {
        m = shift_right_sticky(m, 1);
        exponent++;
    }
    while (!(m & 0x40000000u)) {
        m <<= 1;
        exponent--;
    }
    if (exponent >= 255) {
        return from_bits(sign | INFINITY_BITS);
    }
    if (exponent <= 0) { // subnormal: its leading 1 may lie anywhere
        m = shift_right_sticky(m, 1 - exponent);
        exponent = 0;
    } else {
        exponent--; // the leading 1 adds itself to the exponent below, as does a carry from rounding
    }
    m = (m + 0x3f + (m >> 7 & 1)) >> 7;
    return from_bits(sign | (((uint32_t)exponent << 23) + m));
}

typedef struct {
    uint32_t sign;
    int exponent;
    uint32_t m; // 0 for zero
} parts_t;

static parts_t unpack(uint32_t u) {
    parts_t p = { u & SIGN, (int)(u >> 23 & 0xff), (u & 0x7fffffu) << 7 };
    if (p.exponent != 0) {
        p.m |= 0x40000000u;
    } else {
        p.exponent = 1;
    }
    return p;
}

static int is_nan(uint32_t u) {
    return (u & ~SIGN) > INFINITY_BITS;
}

static int is_infinite(uint32_t u) {
    return (u & ~SIGN) == INFINITY_BITS;
}

float __addsf3(float x, float y) {
    uint32_t u = to_bits(x), v = to_bits(y);
    if (is_nan(u) || is_nan(v) || (is_infinite(u) && is_infinite(v) && u != v)) {
        return from_bits(NAN_BITS);
    }
    if (is_infinite(u) || is_infinite(v)) {
        return is_infinite(u) ? x : y;
    }
    if ((u & ~SIGN) < (v & ~SIGN)) { // the larger one first
        uint32_t t = u;
        u = v;
        v = t;
    }
    parts_t a = unpack(u), b = unpack(v);
    if (a.m == 0) {
        return from_bits(u & v & SIGN);
    }
    uint32_t m = shift_right_sticky(b.m, a.exponent - b.exponent);
    m = a.sign == b.sign ? a.m + m : a.m - m;
    return m == 0 ? from_bits(0) : packed(a.sign, a.exponent, m);
}

float __subsf3(float x, float y) {
    return __addsf3(x, from_bits(to_bits(y) ^ SIGN));
}

float __mulsf3(float x, float y) {
    uint32_t u = to_bits(x), v = to_bits(y);
    uint32_t sign = (u ^ v) & SIGN;
    parts_t a = unpack(u), b = unpack(v);
    if (is_nan(u) || is_nan(v) || (is_infinite(u) && b.m == 0) || (is_infinite(v) && a.m == 0)) {
        return from_bits(NAN_BITS);
    }
    if (is_infinite(u) || is_infinite(v)) {
        return from_bits(sign | INFINITY_BITS);
    }
    if (a.m == 0 || b.m == 0) {
        return from_bits(sign);
    }
    while (!(a.m & 0x40000000u)) { // a subnormal, whose product would lose bits
        a.m <<= 1;
        a.exponent--;
    }
    while (!(b.m & 0x40000000u)) {
        b.m <<= 1;
        b.exponent--;
    }
    uint64_t product = __umulsidi3(a.m, b.m); // leading 1 at bit 60 or 61
    uint32_t m = (uint32_t)(product >> 30) | ((product & 0x3fffffffu) != 0);
    return packed(sign, a.exponent + b.exponent - 127, m);
}

float __divsf3(float x, float y) {
    uint32_t u = to_bits(x), v = to_bits(y);
    uint32_t sign = (u ^ v) & SIGN;
    parts_t a = unpack(u), b = unpack(v);
    if (is_nan(u) || is_nan(v) || (is_infinite(u) && is_infinite(v)) || (a.m == 0 && b.m == 0)) {
        return from_bits(NAN_BITS);
    }
    if (is_infinite(u) || b.m == 0) {
        return from_bits(sign | INFINITY_BITS);
    }
    if (is_infinite(v) || a.m == 0) {
        return from_bits(sign);
    }
    while (!(a.m & 0x40000000u)) {
        a.m <<= 1;
        a.exponent--;
    }
    while (!(b.m & 0x40000000u)) {
        b.m <<= 1;
        b.exponent--;
    }
    uint32_t q = 0, r = a.m;
    for (int i = 30; i >= 0; i--) { // a quotient between 1/2 and 2, 30 bits behind the point
        if (r >= b.m) {
            r -= b.m;
            q |= (uint32_t)1 << i;
        }
        r <<= 1;
    }
    return packed(sign, a.exponent - b.exponent + 127, q | (r != 0));
}

static float from_integer(uint32_t sign, uint32_t m) {
    return m == 0 ? from_bits(0) : packed(sign, 127 + 30, m);
}

float __floatsisf(int32_t x) {
    return from_integer(x < 0 ? SIGN : 0, magnitude(x));
}

float __floatunsisf(uint32_t x) {
    return from_integer(0, x);
}

// Towards zero. What does not fit gives the nearest that does; C leaves it open.
uint32_t __fixunssfsi(float x) {
    uint32_t u = to_bits(x);
    parts_t a = unpack(u);
    if (u & SIGN || a.exponent < 127) {
        return 0;
    }
    if (a.exponent > 127 + 31) {
        return UINT32_MAX;
    }
    int shift = 127 + 30 - a.exponent;
    return shift >= 0 ? a.m >> shift : a.m << -shift;
}

// --- to and from double precision -------------------------------------------------------------------

typedef union {
    double f;
    uint64_t u;
} double_bits_t;

static double from_long_bits(uint64_t u) {
    double_bits_t r;
    r.u = u;
    return r.f;
}

// m has its leading 1 at bit 30; every such number fits.
static double widened(uint32_t sign, int exponent, uint32_t m) {
    while (!(m & 0x40000000u)) {
        m <<= 1;
        exponent--;
    }
    uint64_t high = sign | (uint32_t)(exponent - 127 + 1023) << 20;
    return from_long_bits((high << 32) + ((uint64_t)(m & 0x3fffffffu) << 22));
}

double __extendsfdf2(float x) {
    uint32_t u = to_bits(x);
    parts_t a = unpack(u);
    if (a.exponent == 255) {
        uint64_t nan = is_nan(u) ? (uint64_t)0x80000 << 32 : 0;
        return from_long_bits(((uint64_t)((u & SIGN) | 0x7ff00000u) << 32) | nan);
    }
    return a.m == 0 ? from_long_bits((uint64_t)a.sign << 32) : widened(a.sign, a.exponent, a.m);
}

double __floatsidf(int32_t x) {
    uint32_t m = magnitude(x), sign = x < 0 ? SIGN : 0;
    if (m == 0x80000000u) {
        return widened(sign, 127 + 31, 0x40000000u);
    }
    return m == 0 ? 0 : widened(sign, 127 + 30, m);
}

float __truncdfsf2(double x) {
    double_bits_t bits;
    bits.f = x;
    uint32_t sign = (uint32_t)(bits.u >> 32) & SIGN;
    int exponent = (int)(bits.u >> 52 & 0x7ff);
    uint64_t m = bits.u & 0xfffffffffffffu;
    if (exponent == 0x7ff) {
        return from_bits(sign | (m != 0 ? NAN_BITS : INFINITY_BITS));
    }
    if (exponent == 0) { // zero, or far below what a float can be
        return from_bits(sign);
    }
    uint32_t significand = 0x40000000u | (uint32_t)(m >> 22) | ((m & 0x3fffffu) != 0);
    return packed(sign, exponent - 1023 + 127, significand);
}

// A 64-bit integer as a float: libgcc's for Cortex-M0 takes the addition and multiplication of doubles with it, 3.4 kB;
// with register windows (xtensawin.c) there is none. tests/usermod/test_native.py compares both.
#include <stdint.h>

#ifndef L2F // what the compiler calls
#ifdef __XTENSA__
#define L2F __floatdisf
#else
#define L2F __aeabi_l2f
#endif
#endif

float L2F(int64_t x);

// Rounded once: by the conversion of 32 bits, the lowest of which stands for all that are cut off.
float L2F(int64_t x) {
    uint64_t whole = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    uint32_t low = (uint32_t)whole, high = (uint32_t)(whole >> 32);
    int cut = 0;
    for (; high != 0; cut++) {
        low = low >> 1 | high << 31 | (low & 1);
        high >>= 1;
    }
    union {
        float f;
        uint32_t bits;
    } of = { (float)low };
    of.bits += (uint32_t)cut << 23; // times 2^cut: nothing is cut off 0
    return x < 0 ? -of.f : of.f;
}

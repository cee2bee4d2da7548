// mica: a token drawn by its score, in integers alone: the same on every core for the same scores, state (SPEC.md).
#include <string.h>

#include "mica.h"

#ifndef MICA_WITHOUT_TOKENS
static uint32_t next(uint32_t *state) {
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *state = x;
    return x;
}

// By how much the binary logarithm of the weight falls with each step of the scores, in 2^-20.
static uint32_t fall(float scale, uint32_t temperature) {
    uint32_t bits;
    memcpy(&bits, &scale, sizeof(bits));
    const int32_t shift = (int32_t)(bits >> 23 & 0xff) - 130;  // without floating-point code
    const uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
    const uint32_t scaled = shift > 7 ? 0x7fffffffu
        : shift >= 0 ? mantissa << shift : shift < -31 ? 0 : mantissa >> -shift;
    const uint64_t q64 = ((uint64_t)scaled * 1512775) >> 20;
    const uint32_t q = q64 > UINT32_MAX ? UINT32_MAX : (uint32_t)q64, whole = q / temperature;
    return whole >= 4000000 ? UINT32_MAX : whole * 1000 + q % temperature * 1000 / temperature;
}

static uint32_t weight(uint32_t d, uint32_t step) {
    const uint64_t a = (uint64_t)d * step;
    if (a >> 20 > 16) {
        return 0;
    }
    const uint32_t f = (uint32_t)(a >> 4) & 0xffff;
    uint32_t p = 15149 - (f * 2592 >> 16);
    p = 45325 - (f * p >> 16);
    p = 65536 - (f * p >> 16);
    return p >> (uint32_t)(a >> 20);
}

uint32_t mica_sample(const int8_t *y, uint32_t n, float scale, uint32_t temperature, uint32_t top_k, uint32_t *state) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; ++i) {
        best = y[i] > y[best] ? i : best;
    }
    if (temperature == 0) {
        return best;
    }
    const int32_t top = y[best];
    uint16_t levels[256] = { 0 };  // how many scores lie so far below the largest
    for (uint32_t i = 0; i < n; ++i) {
        ++levels[top - y[i]];
    }
    // Of the last level that is taken only the first `rest`; of those below none.
    const uint32_t step = fall(scale, temperature);
    uint32_t last = 0, rest = top_k;
    uint32_t sum = 0;
    for (; last < 255 && levels[last] < rest; ++last) {
        sum += levels[last] * weight(last, step);
        rest -= levels[last];
    }
    rest = rest < levels[last] ? rest : levels[last];
    sum += rest * weight(last, step);
    const uint32_t drawn = (uint32_t)(((uint64_t)next(state) * sum) >> 32);
    uint32_t up_to = 0;
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t d = (uint32_t)(top - y[i]);
        if (d > last || (d == last && rest-- == 0)) {
            rest += d == last;  // none is left of it
            continue;
        }
        up_to += weight(d, step);
        if (up_to > drawn) {
            return i;
        }
    }
    return best;
}
#endif

// Runs a function over all numbers from `from` to `to` and prints the first for which its claim is false.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer_norm.h"

#if defined(PROVE_ATTEND)
#include "isa/c32/attend.h"
#elif defined(PROVE_NORM)
#include "ref/norm.c"
#elif defined(PROVE_BITS)
#include "bins.c"
#endif

typedef unsigned __int128 wide_t;

// 2^31 * 2^(f / 2^16), rounded up; and 2^31 * 2^((f + 1) / 2^16 + 2^-27), rounded down.
static uint32_t log_low[65536], log_high[65536];

// To the nearest integer, at most 65535.
static int root(uint32_t v) {
    const uint64_t r = mica_root(v), four = 4 * (uint64_t)v;
    return (r == 0 || (2 * r - 1) * (2 * r - 1) <= four) && (r == 65535 || four < (2 * r + 1) * (2 * r + 1));
}

// Never above the logarithm, and at most 2^-16 + 2^-27 below it.
static int log2_of(uint32_t v) {
    const uint32_t log = mica_log2(v), z = (uint32_t)__builtin_clz(v), m = v << z, f = log & 0xffff;
    return log >> 16 == 31 - z && log_low[f] <= m && m <= log_high[f];
}

// R of mica_norm_row is 2^31 / sqrt(m) within 2^-15, where the sum of squares is m.
static int inverse_root(uint32_t m) {
    const mica_layer_norm_s8_t p = { .mode = MICA_NORM_SQUARES };
    const uint64_t inverse = (uint64_t)mica_norm_row(&p, 0, m, 0).scale;
    const wide_t square = (wide_t)(inverse * inverse) * m, one = (wide_t)1 << 62, middle = one + (one >> 30);
    return square < middle + (one >> 14) && square > middle - (one >> 14);  // (1 +- 2^-15)^2
}

#ifdef PROVE_ATTEND
static int quotient(uint32_t n) {
    const uint64_t exact = ((uint64_t)1 << 62) / n;
    return mica_attend_inverse(n) == (exact > INT32_MAX ? INT32_MAX : exact);
}
#endif

#ifdef PROVE_NORM
// R of scale_of: what it makes of the factor 65535, one too small above 2^15. R = 2^15 + 1 shows with 2^15.
// R is below 2^16, and within 2 of 2^8 * sqrt(63 * 2^24 / m).
static int newton(uint32_t w) {
    mica_norm_s8_t p = { .mode = MICA_NORM_SQUARES, .factor = 65535, .n = 1 };
    const uint64_t m = ((w >> 15) + 1) >> 1, most = scale_of(&p, 0, w).factor;
    p.factor = 1 << 15;
    const uint64_t r = most + (most > 1 << 15 || (most == 1 << 15 && scale_of(&p, 0, w).factor > 1 << 14));
    const wide_t square = ((wide_t)63 << 40) / m;
    return r < 65536 && (r - 2) * (r - 2) <= square && square < (r + 2) * (r + 2);
}
#endif

#ifdef PROVE_BITS
static int bits(uint32_t v) {
    return mica_spectrum_bits(v) == (v ? 32 - __builtin_clz(v) : 0);
}
#endif

static const struct {
    const char *name;
    int (*holds)(uint32_t);
} claims[] = {
    { "root", root }, { "log2", log2_of }, { "inverse_root", inverse_root },
#ifdef PROVE_ATTEND
    { "quotient", quotient },
#endif
#ifdef PROVE_NORM
    { "newton", newton },
#endif
#ifdef PROVE_BITS
    { "bits", bits },
#endif
};

int main(int argc, char **argv) {
    if (argc != 5) {
        return 2;
    }
    const uint64_t from = strtoull(argv[2], NULL, 0), to = strtoull(argv[3], NULL, 0);
    const uint64_t step = strtoull(argv[4], NULL, 0);
    if (!strcmp(argv[1], "log2")) {
        if (fread(log_low, 4, 65536, stdin) != 65536 || fread(log_high, 4, 65536, stdin) != 65536) {
            return 2;
        }
    }
    for (size_t i = 0; i < sizeof(claims) / sizeof(*claims); ++i) {
        if (!strcmp(argv[1], claims[i].name)) {
            int (*const holds)(uint32_t) = claims[i].holds;
            for (uint64_t v = from; v < to; v += step) {
                if (!holds((uint32_t)v)) {
                    printf("%s is false for %llu\n", argv[1], (unsigned long long)v);
                    return 1;
                }
            }
            return 0;
        }
    }
    return 2;
}

// Compares boards/common/qemu/xtensa_libgcc.c, compiled under other names, with this computer's own arithmetic.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

uint64_t ours_umulsidi3(uint32_t a, uint32_t b);
uint64_t ours_muldi3(uint64_t a, uint64_t b);
uint32_t ours_udivsi3(uint32_t n, uint32_t d);
uint32_t ours_umodsi3(uint32_t n, uint32_t d);
int32_t ours_divsi3(int32_t n, int32_t d);
int32_t ours_modsi3(int32_t n, int32_t d);
uint64_t ours_udivdi3(uint64_t n, uint64_t d);
uint64_t ours_umoddi3(uint64_t n, uint64_t d);
int64_t ours_divdi3(int64_t n, int64_t d);
int64_t ours_moddi3(int64_t n, int64_t d);
float ours_addsf3(float x, float y);
float ours_subsf3(float x, float y);
float ours_mulsf3(float x, float y);
float ours_divsf3(float x, float y);
float ours_floatsisf(int32_t x);
float ours_floatunsisf(uint32_t x);
uint32_t ours_fixunssfsi(float x);
double ours_extendsfdf2(float x);
double ours_floatsidf(int32_t x);
float ours_truncdfsf2(double x);

static uint64_t state = 88172645463325252u;

static uint64_t next(void) { // xorshift64
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint32_t bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

// Mostly numbers near each other, so that sums cancel; sometimes the odd ones: zeros, subnormals, infinities, NaN.
static float number(float near) {
    static const uint32_t odd[] = {0, 1, 0x7fffff, 0x800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x00400000};
    uint64_t r = next();
    uint32_t u;
    switch (r & 7) {
        case 0:
            u = odd[(r >> 8) % 9] | (uint32_t)(r >> 32 & 0x80000000u);
            break;
        case 1:
        case 2:
        case 3:
            u = (bits(near) ^ (uint32_t)(r >> 32 & 0x80000000u)) + (uint32_t)(r >> 8 & 0x3ffffff) - 0x2000000;
            break;
        default:
            u = (uint32_t)(r >> 16);
    }
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static int same(float a, float b) {
    return bits(a) == bits(b) || (a != a && b != b); // one NaN is as good as another
}

#define CHECK(condition, ...) \
    if (!(condition)) { \
        printf(__VA_ARGS__); \
        return 1; \
    }

int main(void) {
    float x = 1;
    for (int i = 0; i < 3000000; i++) {
        float y = number(x);
        CHECK(same(ours_addsf3(x, y), x + y), "%a + %a: %a\n", x, y, ours_addsf3(x, y));
        CHECK(same(ours_subsf3(x, y), x - y), "%a - %a: %a\n", x, y, ours_subsf3(x, y));
        CHECK(same(ours_mulsf3(x, y), x * y), "%a * %a: %a\n", x, y, ours_mulsf3(x, y));
        CHECK(same(ours_divsf3(x, y), x / y), "%a / %a: %a\n", x, y, ours_divsf3(x, y));
        if (y > -1 && y < 4294967296.0f) {
            CHECK(ours_fixunssfsi(y) == (uint32_t)y, "(unsigned) %a: %" PRIu32 "\n", y, ours_fixunssfsi(y));
        }
        double wide = ours_extendsfdf2(y), odd = wide * (1 + (double)(next() >> 40) / 0x1p52);
        CHECK(y != y ? wide != wide : wide == (double)y, "(double) %a: %a\n", y, wide);
        CHECK(same(ours_truncdfsf2(odd), (float)odd), "(float) %a: %a\n", odd, ours_truncdfsf2(odd));
        x = y;
    }
    for (int i = 0; i < 300000; i++) {
        uint64_t n = next() >> (next() & 63), d = next() >> (next() & 63) | 1;
        uint32_t a = (uint32_t)n, b = (uint32_t)d;
        int32_t sa = (int32_t)a >> 1, sb = (int32_t)b;
        int64_t sn = (int64_t)n >> 1, sd = (int64_t)d;
        CHECK(ours_umulsidi3(a, b) == (uint64_t)a * b, "%" PRIu32 " * %" PRIu32 "\n", a, b);
        CHECK(ours_muldi3(n, d) == n * d, "%" PRIu64 " * %" PRIu64 "\n", n, d);
        CHECK(ours_udivsi3(a, b) == a / b && ours_umodsi3(a, b) == a % b, "%" PRIu32 " / %" PRIu32 "\n", a, b);
        CHECK(ours_divsi3(sa, sb) == sa / sb && ours_modsi3(sa, sb) == sa % sb, "%" PRId32 " / %" PRId32 "\n", sa, sb);
        CHECK(ours_udivdi3(n, d) == n / d && ours_umoddi3(n, d) == n % d, "%" PRIu64 " / %" PRIu64 "\n", n, d);
        CHECK(ours_divdi3(sn, sd) == sn / sd && ours_moddi3(sn, sd) == sn % sd, "%" PRId64 " / %" PRId64 "\n", sn, sd);
        CHECK(same(ours_floatunsisf(a), (float)a), "(float) %" PRIu32 "\n", a);
        CHECK(ours_floatsidf((int32_t)a) == (double)(int32_t)a, "(double) %" PRId32 "\n", (int32_t)a);
        CHECK(same(ours_floatsisf((int32_t)a), (float)(int32_t)a), "(float) %" PRId32 "\n", (int32_t)a);
    }
    printf("equal\n");
    return 0;
}

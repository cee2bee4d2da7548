// What the processor can do, asked once.
#include "x86.h"

static mica_x86_t chosen;
static bool asked;

mica_x86_t mica_x86_limit(mica_x86_t most) {
    mica_x86_t has = MICA_X86_VECTOR;
    #ifdef MICA_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        has = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("avx512vnni") ? MICA_X86_VNNI : MICA_X86_AVX2;
    }
    #endif
    chosen = has < most ? has : most;
    asked = true;
    return chosen;
}

mica_x86_t mica_x86_choice(void) {
    return asked ? chosen : mica_x86_limit(MICA_X86_VNNI);
}

const char *mica_x86_isa(void) {
    static const char *const names[] = { "vector", "avx2", "avx512vnni" };
    return names[mica_x86_choice()];
}

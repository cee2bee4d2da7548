// Which of these kernels the processor runs. Asked once; tests ask for less than it has.
#include "host.h"

static mica_host_t chosen;
static bool asked;

static mica_host_t fastest(void) {
    #ifdef MICA_HOST_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("avx512vnni") ? MICA_HOST_VNNI : MICA_HOST_AVX2;
    }
    #endif
    return MICA_HOST_VECTOR;
}

mica_host_t mica_host_limit(mica_host_t most) {
    const mica_host_t has = fastest();
    chosen = has < most ? has : most;
    asked = true;
    return chosen;
}

mica_host_t mica_host_choice(void) {
    return asked ? chosen : mica_host_limit(MICA_HOST_VNNI);
}

const char *mica_host_name(mica_host_t choice) {
    static const char *const names[] = { "vector", "avx2", "avx512vnni" };
    return names[choice];
}

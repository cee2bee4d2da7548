// What CBMC proves of the products of conv2d_s16: it reads n numbers of each buffer, and no sum overflows.
#include "any.h"

#define PRODUCT (1 << 22)  // of an int16 and an int8, at most

static bool within(int64_t sum, int64_t products) {
    const int64_t most = products * PRODUCT;
    return sum >= -most && sum <= most;
}

// A sum of so many products, and of a bias where it has one.
static int64_t some_sum(int64_t products) {
    const int64_t sum = (int64_t)nondet_u64();
    __CPROVER_assume(within(sum, products));
    return sum;
}

#define BIAS 512  // products that are as large as an int32

#include "conv2d_s16.c"

void prove_dot(void) {
    const int32_t n = (int32_t)up_to(MICA_MAX_BYTES / 2);
    const int16_t *x = malloc((size_t)n * 2);
    const int8_t *w = malloc((size_t)n);
    __CPROVER_assume(x != NULL && w != NULL);
    const int64_t sum = dot((int32_t)nondet_u32(), x, w, n);
    __CPROVER_assert(within(sum, BIAS + (int64_t)n), "the sum");
}

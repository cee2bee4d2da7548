#include "mica_port.h"
#include "shape.h"

#define FAST_LIMIT (1u << 29)

uint32_t mica_product(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint64_t p = (uint64_t)(a * b) * c * d;  // below 2^64: each is a uint16, and a * b fits a uint32
    return p > MICA_MAX_BYTES ? MICA_MAX_BYTES + 1u : (uint32_t)p;
}

// Furthest tap from the first window's first tap, along one axis. Kept to 2^30 so that int32 holds every address.
static bool reach_fits(uint32_t out, uint32_t kernel, uint32_t stride, uint32_t dilation) {
    return (uint64_t)(out - 1) * stride + (uint64_t)(kernel - 1) * dilation <= (1u << 30);
}

mica_status_t mica_window_check(const mica_window_t *w, const char **what) {
    if (!w->in_h || !w->in_w || !w->in_c || !w->out_h || !w->out_w || !w->out_c) {
        *what = "a dimension is 0";
        return MICA_ERR_SHAPE;
    }
    if (!w->kernel_h || !w->kernel_w || !w->stride_h || !w->stride_w || !w->dilation_h || !w->dilation_w) {
        *what = "kernel, stride or dilation is 0";
        return MICA_ERR_SHAPE;
    }
    if (mica_product(w->in_h, w->in_w, w->in_c, 1) > MICA_MAX_BYTES
        || mica_product(w->out_h, w->out_w, w->out_c, 1) > MICA_MAX_BYTES
        || !reach_fits(w->out_h, w->kernel_h, w->stride_h, w->dilation_h)
        || !reach_fits(w->out_w, w->kernel_w, w->stride_w, w->dilation_w)) {
        *what = "the windows reach too far";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

mica_status_t mica_groups_check(const mica_window_t *w, uint32_t groups, const char **what) {
    const mica_status_t status = mica_window_check(w, what);
    if (status != MICA_OK) {
        return status;
    }
    if (!groups || w->in_c % groups || w->out_c % groups) {
        *what = "groups do not divide the channels";
        return MICA_ERR_SHAPE;
    }
    if (mica_product(w->out_c, w->kernel_h, w->kernel_w, w->in_c / groups) > MICA_MAX_BYTES) {
        *what = "too many weights";
        return MICA_ERR_SHAPE;
    }
    return MICA_OK;
}

mica_status_t mica_act_check(int8_t act_min, int8_t act_max, const char **what) {
    if (act_min > act_max) {
        *what = "act_min is above act_max";
        return MICA_ERR_RANGE;
    }
    return MICA_OK;
}

mica_status_t mica_requant_check(const int32_t *mult, const int8_t *shift, uint32_t n, const char **what) {
    if (!mica_aligned4(mult)) {
        *what = "mult is not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    for (uint32_t i = 0; i < n; ++i) {
        if (mult[i] < MICA_MULT_MIN || shift[i] < MICA_SHIFT_MIN || shift[i] > MICA_SHIFT_MAX) {
            *what = "mult is negative or shift outside -30 to 31";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

mica_status_t mica_exponentials_check(const uint32_t *table, uint32_t axis, const char **what) {
    if (!mica_aligned4(table)) {
        *what = "the table is not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    uint32_t most = 0;
    for (uint32_t d = 0; d < 256; ++d) {
        most = table[d] > most ? table[d] : most;
    }
    if (table[0] == 0 || most > 1u << 23 || (uint64_t)most * axis > 1u << 31) {
        *what = "the table begins with 0, passes 2^23, or can overflow over this axis";
        return MICA_ERR_RANGE;
    }
    return MICA_OK;
}

#ifdef __ARM_ARCH_6M__
// Words up to `end`, four at a time, in 20 cycles where a compiler's code takes 50; a multiple of four of them, and at
// least four. Returns what has one of the bits 7, 15, 23 and 31 exactly when one of their bytes is 0.
static uint32_t zeros_in(const mica_word_t *word, const mica_word_t *end) {
    register const mica_word_t *r0 __asm__("r0") = word;
    register uint32_t r1 __asm__("r1") = 0;
    register uint32_t r2 __asm__("r2") = 0x01010101u;
    register const mica_word_t *r3 __asm__("r3") = end;
    #define ZEROS_IN(r) "subs r3, " #r ", r2\n\tbics r3, " #r "\n\torrs r1, r3\n\t"
    __asm__ volatile (  // r7 may be the frame pointer
        ".syntax unified\n\tmov r12, r7\n\tmov r8, r3\n1:\tldmia r0!, {r4, r5, r6, r7}\n\t"
        ZEROS_IN(r4) ZEROS_IN(r5) ZEROS_IN(r6) ZEROS_IN(r7) "cmp r0, r8\n\tbne 1b\n\tmov r7, r12"
        : "+r" (r0), "+r" (r1), "+r" (r2), "+r" (r3) : : "r4", "r5", "r6", "r8", "r12", "cc", "memory");
    #undef ZEROS_IN
    return r1;
}
#endif

// Whether one of n bytes equals `byte`. Words where aligned: a word's test is true exactly where a byte of it is 0.
static bool has_byte(const uint8_t *p, size_t n, uint8_t byte) {
    for (; n != 0 && ((uintptr_t)p & 3) != 0; --n, ++p) {
        if (*p == byte) {
            return true;
        }
    }
    const uint32_t ones = 0x01010101u, flip = byte * ones;
    const mica_word_t *word = (const mica_word_t *)(const void *)p;
    uint32_t seen = 0;
    #ifdef __ARM_ARCH_6M__
    if (byte == 0 && n >= 16) {
        seen = zeros_in(word, word + (n & ~(size_t)15) / 4);
        word += (n & ~(size_t)15) / 4;
        n &= 15;
    }
    #endif
    for (const mica_word_t *end = word + n / 4; word != end; ++word) {
        uint32_t w = *word ^ flip;
        seen |= (w - ones) & ~w;
    }
    if (seen & 0x80u * ones) {
        return true;
    }
    p = (const uint8_t *)word;
    for (n &= 3; n != 0; --n, ++p) {
        if (*p == byte) {
            return true;
        }
    }
    return false;
}

// The sum of magnitudes of k weights of a row, and the least of them. At 2^24 it ends: 128 times that is 2^31.
static uint32_t read_row(const mica_channels_t *c, const uint8_t *w, uint32_t k, uint8_t flip, int32_t *least) {
    uint32_t sum = 0;
    *least = 0;
    for (uint32_t i = 0; i < k && sum < 1u << 24; ++i) {
        int32_t v = MICA_CODED(c->layout) ? mica_coded(c->table, (const int8_t *)w, i) : (int8_t)(w[i] ^ flip);
        sum += (uint32_t)(v < 0 ? -v : v);
        *least = v < *least ? v : *least;
    }
    return sum;
}

// Whether claims of FAST hold for all n channels as no sum of magnitudes is above `most` < 2^22, and no weight is -128.
static bool all_fast(const mica_channels_t *c, uint32_t n, uint32_t most) {
    const uint32_t limit = FAST_LIMIT - 128 * most;  // |bias| has to be below
    int32_t mults = 0;
    for (uint32_t o = 0; o < n; ++o) {
        mults |= c->mult[o];
        if ((uint32_t)c->bias[o] + limit - 1 > 2 * limit - 2 || (uint32_t)c->shift[o] - 1 > 21) {
            return false;
        }
    }
    return mults >= MICA_MULT_MIN;
}

// Most rows need not be read: no weight is above 128 in magnitude, and where no_least says that one look at all of them
// has found no -128, no row has one. Other rows are read (long rows, large biases, -128 in the filling).
static mica_status_t check_each(const mica_channels_t *c, uint32_t n, uint32_t k, uint32_t most, uint8_t flip,
    bool no_least, const char **what) {
    const uint32_t row = mica_row_bytes(c->layout, k);
    for (uint32_t o = 0; o < n; ++o) {
        uint32_t bias = c->bias[o] < 0 ? 0u - (uint32_t)c->bias[o] : (uint32_t)c->bias[o];
        uint32_t sum = most;
        int32_t least = -MICA_WEIGHT_LARGEST;
        if (sum >= 1u << 24 || bias >= FAST_LIMIT || bias + 128 * sum >= FAST_LIMIT || (c->fast && !no_least)) {
            sum = read_row(c, (const uint8_t *)c->weights + (size_t)o * row, k, flip, &least);
        }
        if (sum >= 1u << 24 || bias + 128 * sum >= 1u << 31 || bias >= 1u << 31) {
            *what = "an accumulator can overflow: |bias| + 128 * sum|w| reaches 2^31";
            return MICA_ERR_RANGE;
        }
        if (c->fast && (bias + 128 * sum >= FAST_LIMIT || least < -MICA_WEIGHT_LARGEST || c->shift[o] < 1
            || c->shift[o] > 22)) {
            *what = "claims FAST, and its constants do not allow it";
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

mica_status_t mica_channels_check(const mica_channels_t *c, uint32_t n, uint32_t k, const char **what) {
    if (!mica_aligned4(c->bias)) {
        *what = "bias is not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    const uint8_t flip = c->layout == MICA_LAYOUT_OFFSET_ROWS ? 0x80 : 0;
    const uint32_t most = k < 1u << 17 ? 128 * k : 1u << 24;
    const bool codes = MICA_CODED(c->layout);  // whose weights are all in the table
    const uint8_t *all = (const uint8_t *)(codes ? c->table : c->weights);
    const size_t bytes = codes ? MICA_CODES : (size_t)n * mica_row_bytes(c->layout, k);
    const bool no_least = c->fast && !has_byte(all, bytes, 0x80 ^ flip);
    if (no_least && most < 1u << 22 && mica_aligned4(c->mult) && all_fast(c, n, most)) {
        return MICA_OK;
    }
    const mica_status_t status = mica_requant_check(c->mult, c->shift, n, what);
    return status != MICA_OK ? status : check_each(c, n, k, most, flip, no_least, what);
}

uint32_t mica_scratch_min(uint32_t kernel, uint32_t out_channels, uint32_t reduction) {
    (void)reduction;
    if (kernel == MICA_KERNEL_RECURRENT_S8) {  // three states of each unit, 16 bits each
        return 6 * out_channels;
    }
    if (kernel == MICA_KERNEL_TREES_S8) {  // a sum for each number of a result
        return 4 * out_channels;
    }
    if (kernel == MICA_KERNEL_FOREST_S8) {  // and a row of x, with room for every column that a node could name
        return 256 + 4 * out_channels;
    }
    if (kernel == MICA_KERNEL_NEAREST_S8 || kernel == MICA_KERNEL_MACHINE_S8) {  // 64-bit sums, and room to align
        return 8 * out_channels + 4;
    }
    return 0;  // every other kernel has a variant that needs none
}

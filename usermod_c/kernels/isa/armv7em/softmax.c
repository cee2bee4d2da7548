// Softmax over the last axis on a Cortex-M with DSP instructions.
#include "kernels.h"
#ifndef MICA_WITHOUT_SOFTMAX_S8

// The largest of n bytes; four at a time where SSUB8 and SEL compare as many.
static int32_t largest(const int8_t *x, uint32_t n) {
    int32_t most = -128;
    const int8_t *end = x + n;
    if (n >= 4) {
        uint32_t four = 0x80808080, v;
        for (const int8_t *last = x + (n & ~3u); x != last; x += 4) {
            uint32_t sink;
            __builtin_memcpy(&v, x, 4);
            __asm__ ("ssub8 %1, %2, %0\n\tsel %0, %2, %0" : "+r" (four), "=&r" (sink) : "r" (v));
        }
        for (uint32_t i = 0; i < 4; ++i, four >>= 8) {
            most = (int8_t)four > most ? (int8_t)four : most;
        }
    }
    for (; x != end; ++x) {
        most = *x > most ? *x : most;
    }
    return most;
}

void mica_softmax_s8_armv7em(const mica_softmax_s8_t *p, MICA_KERNEL_ARGS) {
    uint32_t axis = p->axis;
    if (p->wide) {
        mica_softmax_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t zero = p->y_zero;
    const int8_t *x = p->x + (size_t)row_begin * axis;
    int8_t *y = p->y + (size_t)row_begin * axis;
    for (uint32_t row = row_begin; row < row_end; ++row, x += axis, y += axis) {
        const uint32_t *table = p->table + largest(x, axis);
        uint32_t sum = 0;
        #pragma GCC unroll 4
        for (const int8_t *from = x, *end = x + axis; from != end;) {
            sum += *(table - *from++);
        }
        sum += sum == 0;  // only a file that changed after it was loaded comes to this: no division by zero then, either
        uint32_t half = sum / 2;
        int8_t *to = y;
        #pragma GCC unroll 4
        for (const int8_t *from = x, *end = x + axis; from != end;) {
            // At most 256, and at least zero: only the upper end can saturate.
            int32_t q = (int32_t)((256 * *(table - *from++) + half) / sum) + zero;
            __asm__ ("ssat %0, #8, %0" : "+r" (q));
            *to++ = (int8_t)q;
        }
    }
}

#endif

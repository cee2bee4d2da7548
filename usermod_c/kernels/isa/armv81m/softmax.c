// Softmax over the last axis with MVE: terms are gathered four at a time, quotients are divided one by one. Short rows
// go to c32.
#include "kernels.h"
#ifndef MICA_WITHOUT_SOFTMAX_S8

#define SHORT 8

void mica_softmax_s8_armv81m(const mica_softmax_s8_t *p, MICA_KERNEL_ARGS) {
    const uint32_t axis = p->axis;
    if (axis < SHORT) {
        mica_softmax_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const uint32_t *const table = p->table, *const upper = p->wide ? table + 256 : table;
    const int32_t room = 127 - p->y_zero, zero = p->y_zero, scale = p->wide ? 0 : 8;
    const uint32x4_t rooms = vdupq_n_u32((uint32_t)room);
    const int8_t *x = p->x + (size_t)row_begin * axis;
    int8_t *y = p->y + (size_t)row_begin * axis;
    for (uint32_t left = row_end - row_begin; left; --left) {
        const int8_t *from = x;
        int32_t most = -128;
        __asm__ volatile ("wlstp.8 lr, %2, 2f\n1:\tvldrb.8 q0, [%0], #16\n\tvmaxv.s8 %1, q0\n\tletp lr, 1b\n2:"
            : "+r" (from), "+r" (most) : "r" (axis) : "lr", "q0", "memory");
        const int32x4_t mosts = vdupq_n_s32(most);
        uint32_t sum = 0;  // an even register: VADDVA takes no other
        from = x;
        __asm__ volatile (
            "mov r12, #0\n\twlstp.32 lr, %2, 2f\n1:\tvldrb.s32 q0, [%0], #4\n\tvsub.i32 q0, %q3, q0\n\t"
            "vldrw.u32 q1, [%4, q0, uxtw #2]\n\tvaddva.u32 r12, q1\n\tletp lr, 1b\n2:\tmov %1, r12"
            : "+&l" (from), "=&r" (sum) : "r" (axis), "w" (mosts), "r" (table) : "lr", "r12", "q0", "q1", "memory");
        sum += sum == 0;  // only a file that changed after it was loaded comes to this: no division by zero then, either
        const uint32_t half = sum / 2, fours = axis / 4;
        uint32_t a, b;
        __asm__ volatile (
            "dls lr, %4\n1:\tvldrb.s32 q0, [%0], #4\n\tvsub.i32 q0, %q5, q0\n\tvldrw.u32 q1, [%6, q0, uxtw #2]\n\t"
            "vshl.u32 q1, %7\n\tvadd.i32 q1, q1, %8\n\t"
            "vmov %2, %3, q1[2], q1[0]\n\tudiv %2, %2, %9\n\tudiv %3, %3, %9\n\tvmov q0[2], q0[0], %2, %3\n\t"
            "vmov %2, %3, q1[3], q1[1]\n\tudiv %2, %2, %9\n\tudiv %3, %3, %9\n\tvmov q0[3], q0[1], %2, %3\n\t"
            "vmin.u32 q0, q0, %q10\n\tvadd.i32 q0, q0, %11\n\tvstrb.32 q0, [%1], #4\n\tle lr, 1b"
            : "+&l" (x), "+&l" (y), "=&r" (a), "=&r" (b)
            : "r" (fours), "w" (mosts), "r" (upper), "r" (scale), "r" (half), "r" (sum), "w" (rooms), "r" (zero)
            : "lr", "q0", "q1", "memory");
        for (const int8_t *end = x + axis % 4; x != end; ++x) {
            const uint32_t q = ((upper[most - *x] << scale) + half) / sum;
            *y++ = (int8_t)(q > (uint32_t)room ? 127 : (int32_t)q + zero);
        }
    }
}

#endif

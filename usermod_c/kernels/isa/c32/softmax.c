// Softmax over the last axis. Most quotients are 0 where there are many classes, and no division finds that out.
#include "kernels.h"
#ifndef MICA_WITHOUT_SOFTMAX_S8

void mica_softmax_s8_c32(const mica_softmax_s8_t *p, MICA_KERNEL_ARGS) {
    if (p->wide) {
        mica_softmax_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    uint32_t axis = p->axis;
    int32_t zero = p->y_zero, room = 127 - zero;  // quotients beyond it saturate
    const int8_t *x = p->x + (size_t)row_begin * axis;
    int8_t *y = p->y + (size_t)row_begin * axis;
    for (uint32_t row = row_begin; row < row_end; ++row) {
        const int8_t *end = x + axis, *from = x;
        int32_t most = -128;
        do {
            int32_t v = *from++;
            most = v > most ? v : most;
        } while (from != end);
        const uint32_t *table = p->table + most;
        uint32_t sum = 0;
        from = x;
        if (axis & 1) {
            sum = *(table - *from++);
        }
        while (from != end) {
            sum += *(table - from[0]);
            sum += *(table - from[1]);
            from += 2;
        }
        sum += sum == 0;  // only a file that changed after it was loaded comes to this: no division by zero then, either
        uint32_t half = sum / 2;
        do {
            uint32_t v = 256 * *(table - *x++) + half;
            int32_t q = 0;
            if (v >= sum) {
                q = (int32_t)(v / sum);
                q = q > room ? room : q;
            }
            *y++ = (int8_t)(q + zero);
        } while (x != end);
    }
}

#endif

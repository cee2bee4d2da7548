// Any function of one variable, from a table: four at a time, so that two loads and a store are most of it.
#include "kernels.h"
#ifndef MICA_WITHOUT_LUT_S8

void mica_lut_s8_c32(const mica_lut_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const int8_t *table = p->table + 128, *x = p->x + row_begin;
    int8_t *y = p->y + row_begin, *end = p->y + row_end;
    for (int8_t *last = y + ((row_end - row_begin) & ~3u); y != last; x += 4, y += 4) {
        int8_t a = table[x[0]], b = table[x[1]], c = table[x[2]], d = table[x[3]];
        y[0] = a;
        y[1] = b;
        y[2] = c;
        y[3] = d;
    }
    while (y != end) {
        *y++ = table[*x++];
    }
}

#endif

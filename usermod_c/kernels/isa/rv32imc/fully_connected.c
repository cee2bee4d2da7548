// Matrix product with constant weights on RV32IM, eight rows of weights at a time (dense.S); fewer
// rows, and what does not claim FAST, go to c32. Bytes of scratch: a row of x, where
// its length is no multiple of four.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "shape.h"

#define ROWS 8

// The sum of n elements, a multiple of four.
static int32_t sum_of(const int8_t *x, uint32_t n) {
    int32_t sum = 0;
    for (const int8_t *end = x + n; x != end; x += 4) {
        sum += x[0] + x[1] + x[2] + x[3];
    }
    return sum;
}

void mica_fully_connected_s8_rv32imc(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    uint32_t k = p->in_k, n = p->out_n, row = mica_row_bytes(ch->layout, k);
    if (ch->layout != MICA_LAYOUT_OFFSET_ROWS || !ch->fast || n < ROWS || (k != row && row > scratch_bytes)) {
        mica_fully_connected_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    mica_rv32_dense_t args = {
        .length = row,
        .row = row,
        .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min),
        .low = ch->act_min,
    };
    for (uint32_t i = row_begin; i < row_end; ++i) {
        args.x = p->x + (size_t)i * k;
        if (k != row) {
            mica_copy(scratch, args.x, k);
            mica_fill((int8_t *)scratch + k, 0, row - k);
            args.x = scratch;
        }
        args.begin = -128 * sum_of(args.x, row);
        for (uint32_t o = 0;;) {
            args.w = ch->weights + o * row;
            args.bias = ch->bias + o;
            args.mult = ch->mult + o;
            args.shift = ch->shift + o;
            args.y = p->y + (size_t)i * n + o;
            mica_rv32_dense(&args);
            if (o + ROWS == n) {
                break;
            }
            o = o + 2 * ROWS <= n ? o + ROWS : n - ROWS;  // the last eight may overlap those before
        }
    }
}

#endif

// Matrix product with constant weights and MVE, four outputs at a time (dense.S); without scratch. Claims without FAST, codes and fewer
// than four outputs go to armv7em.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "shape.h"

void mica_fully_connected_s8_armv81m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    const uint32_t n = p->out_n;
    if (!ch->fast || ch->layout == MICA_LAYOUT_CODES4 || n < 4) {
        mica_fully_connected_s8_armv7em(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    mica_mve_dense_t args = {
        .x = p->x + (size_t)row_begin * p->in_k, .k = p->in_k, .row = mica_row_bytes(ch->layout, p->in_k),
        .sign = ch->layout == MICA_LAYOUT_OFFSET_ROWS ? 0x80 : 0, .low = ch->act_min, .high = ch->act_max, .zero = ch->y_zero,
    };
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t left = row_end - row_begin; left; --left, args.x += p->in_k, y += n) {
        for (uint32_t o = 0;;) {
            args.w = ch->weights + (size_t)o * args.row;
            args.y = y + o;
            args.fours = o == 0 ? n / 4 : 1;
            args.bias = ch->bias + o;
            args.mult = ch->mult + o;
            args.shift = ch->shift + o;
            mica_mve_dense(&args);
            if (n % 4 == 0 || o) {
                break;
            }
            o = n - 4;  // the last four overlap those before
        }
    }
}

#endif

// mica: an image of one row, cut into columns.
#include "op.h"

uint32_t mica_window_cuts(const mica_window_t *w) {
    const bool columns = w->in_h == 1 && w->out_h == 1
        && (uint32_t)(w->out_w - 1) * w->stride_w < (uint32_t)w->in_w + w->pad_left;
    return columns ? w->out_w : w->out_h;
}

size_t mica_window_cut(mica_window_t *w, uint32_t begin, uint32_t end) {
    const uint32_t start = begin * w->stride_w;
    const uint32_t skip = start > w->pad_left ? start - w->pad_left : 0;
    w->pad_left = (uint16_t)(start > w->pad_left ? 0 : w->pad_left - start);
    w->in_w = (uint16_t)(w->in_w - skip);
    w->out_w = (uint16_t)(end - begin);
    return (size_t)skip * w->in_c;
}

// Patches of a convolution on a Cortex-M0+ as the stream that gemm.S reads, of a tile of pixels.
#include "kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S8

#include "shape.h"

static uint32_t part_length(const mica_tile_t *t, uint32_t part) {
    uint32_t left = t->words - part * t->part_words;
    return left < t->part_words ? left : t->part_words;
}

// Unpacks `words` words at x for `pixels` pixels from `slot` on, as word `word` of each patch; patches in parts.
static void put_parts(const mica_tile_t *t, uint32_t slot, uint32_t pixels, uint32_t word, uint32_t words,
    const int8_t *x, int32_t x_step) {
    if (t->to - t->from <= t->part_words) {  // one of them: what lies in it
        const uint32_t first = word < t->from ? t->from : word, end = word + words < t->to ? word + words : t->to;
        if (first < end) {
            uint32_t length = t->to - t->from, *to = t->stream + 8 * (slot / 4 * length + first - t->from) + slot % 4;
            mica_armv6m_unpack(x + 4 * (first - word), to, end - first, pixels, x_step, slot % 4, 32 * length - 16);
        }
        return;
    }
    while (words) {
        uint32_t part = word / t->part_words, inside = word - part * t->part_words, length = part_length(t, part);
        uint32_t n = words < length - inside ? words : length - inside;
        // Parts before this one are whole; in words of the stream a group is 8 for each word of four elements.
        uint32_t *to = t->stream + 8 * (part * t->part_words * t->groups + slot / 4 * length + inside) + slot % 4;
        mica_armv6m_unpack(x, to, n, pixels, x_step, slot % 4, 32 * length - 16);
        x += 4 * n;
        word += n;
        words -= n;
    }
}

// The same, of patches that are whole or in parts.
static void put(const mica_tile_t *t, uint32_t slot, uint32_t pixels, uint32_t word, uint32_t words, const int8_t *x,
    int32_t x_step) {
    if (t->words == t->part_words && words) {
        uint32_t *to = t->stream + 8 * (slot / 4 * t->words + word) + slot % 4;
        mica_armv6m_unpack(x, to, words, pixels, x_step, slot % 4, 32 * t->words - 16);
        return;
    }
    put_parts(t, slot, pixels, word, words, x, x_step);
}

void mica_armv6m_patch(const mica_conv2d_s8_t *p, int8_t *to, int32_t iy, int32_t ix) {
    const mica_window_t *w = &p->win;
    const int32_t in_c = w->in_c, row = (int32_t)w->in_w * in_c;
    int32_t kx0, kx1, ky0, ky1;
    mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
    mica_taps(iy, w->in_h, w->kernel_h, w->dilation_h, &ky0, &ky1);
    // Taps side by side are copied as one.
    const bool dense = w->dilation_w == 1;
    const int32_t n = dense ? (kx1 - kx0) * in_c : in_c;
    const int32_t apart = dense ? 0 : (int32_t)((uint32_t)w->dilation_w * in_c) - n;
    const int32_t length = w->kernel_w * in_c, before = kx0 * in_c, down = (int32_t)((uint32_t)w->dilation_h * row);
    const int8_t *from = p->x + iy * row + (ix + kx0 * w->dilation_w) * in_c;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, from += down) {
        int8_t *const row_end = to + length;
        if (ky >= ky0 && ky < ky1 && kx0 < kx1) {
            for (int8_t *end = to + before; to != end;) {
                *to++ = p->x_zero;
            }
            const int8_t *x = from;
            for (int32_t left = dense ? 1 : kx1 - kx0; left; --left, x += apart) {
                for (int8_t *end = to + n; to != end;) {
                    *to++ = *x++;
                }
            }
        }
        while (to != row_end) {
            *to++ = p->x_zero;
        }
    }
}

// The tables of mica_armv6m_pick. Elements 0, 1, 2, 3 of a word go to 0, 2, 1, 3, of a part's last one to 0, 4, 1, 5.
void mica_armv6m_tile_table(const mica_tile_t *t) {
    const mica_window_t *w = &t->p->win;
    int32_t *to = t->table;
    uint32_t i = 0, word = 0, last = part_length(t, 0) - 1;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky) {
        for (int32_t kx = 0; kx < w->kernel_w; ++kx) {
            int32_t at = (ky * w->dilation_h * w->in_w + kx * w->dilation_w) * w->in_c;
            for (const int32_t end = at + w->in_c; at != end; ++at) {
                if (word == last) {
                    const uint32_t place = i >> 1 | (i & 1) << 2;
                    for (uint32_t k = i == 0 ? 0 : 8; k < 8; ++k) {
                        to[k] = 0;
                    }
                    to[place] = at;
                    to[place + 2] = i >> 1 ? 1 << 16 : 1;
                } else {
                    to[i >> 1 | (i & 1) << 1] = at;
                }
                if (++i == 4) {
                    i = 0;
                    to += word == last ? 8 : 4;
                    last += word == last ? part_length(t, (word + 1) / t->part_words) : 0;
                    ++word;
                }
            }
        }
    }
}

// Patches of `pixels` neighbours that lie inside the image, the first at x.
static void pick(const mica_tile_t *t, uint32_t slot, uint32_t pixels, const int8_t *x) {
    const int32_t step = t->p->win.stride_w * t->p->win.in_c;
    for (uint32_t word = t->from, length; word < t->to; word += length) {
        const uint32_t part = word / t->part_words;
        length = part_length(t, part);
        uint32_t *to = t->stream + 8 * ((word - t->from) * t->groups + slot / 4 * length) + slot % 4;
        mica_armv6m_pick(x, to, t->table + part * (4 * t->part_words + 4), length, pixels, step, slot % 4,
            32 * length - 16);
    }
}

static void put_bytes(const mica_tile_t *t, uint32_t slot, int32_t iy, int32_t ix) {
    mica_armv6m_patch(t->p, (int8_t *)t->patch, iy, ix);
    put(t, slot, 1, 0, t->words, (const int8_t *)t->patch, 0);
}

// Patches of `pixels` neighbours whose windows have the same taps inside the image, all rows on words; t->patch holds a
// row of x_zero.
static void put_words(const mica_tile_t *t, uint32_t slot, uint32_t pixels, int32_t iy, int32_t ix, int32_t kx0,
    int32_t kx1) {
    const mica_window_t *w = &t->p->win;
    const int8_t *outside = (const int8_t *)t->patch;
    uint32_t tap = w->in_c / 4u, word = 0;
    for (int32_t ky = 0; ky < w->kernel_h; ++ky, iy += w->dilation_h, word += w->kernel_w * tap) {
        if (iy < 0 || iy >= w->in_h || kx0 == kx1) {
            put(t, slot, pixels, word, w->kernel_w * tap, outside, 0);
            continue;
        }
        const int8_t *x = t->p->x + (iy * w->in_w + ix + kx0) * w->in_c;
        put(t, slot, pixels, word, (uint32_t)kx0 * tap, outside, 0);
        put(t, slot, pixels, word + (uint32_t)kx0 * tap, (uint32_t)(kx1 - kx0) * tap, x, w->stride_w * w->in_c);
        put(t, slot, pixels, word + (uint32_t)kx1 * tap, (uint32_t)(w->kernel_w - kx1) * tap, outside, 0);
    }
}

// `pixels` neighbours of a row, the first at (oy, ox).
static void put_row(const mica_tile_t *t, uint32_t slot, uint32_t pixels, int32_t oy, int32_t ox, bool aligned) {
    const mica_window_t *w = &t->p->win;
    int32_t iy = oy * w->stride_h - w->pad_top, ix = ox * w->stride_w - w->pad_left;
    for (uint32_t n; pixels; slot += n, pixels -= n, ix += (int32_t)n * w->stride_w) {
        n = 1;
        int32_t kx0, kx1;
        mica_taps(ix, w->in_w, w->kernel_w, w->dilation_w, &kx0, &kx1);
        if (kx1 - kx0 == w->kernel_w) {  // and those behind it that lie inside as well
            n = pixels;
            int32_t room = w->in_w - 1 - (w->kernel_w - 1) * w->dilation_w - ix;
            if ((int32_t)(pixels - 1) * w->stride_w > room) {
                n = (uint32_t)room / w->stride_w + 1;
            }
        }
        const bool inside = kx1 - kx0 == w->kernel_w && iy >= 0 && iy + (w->kernel_h - 1) * w->dilation_h < w->in_h;
        if (aligned) {
            put_words(t, slot, n, iy, ix, kx0, kx1);
        } else if (inside) {
            pick(t, slot, n, t->p->x + (iy * w->in_w + ix) * w->in_c);
        } else {
            n = 1;
            put_bytes(t, slot, iy, ix);
        }
    }
}

void mica_armv6m_tile(const mica_tile_t *t, uint32_t pixels, int32_t *oy, int32_t *ox, bool aligned) {
    const int32_t out_w = t->p->win.out_w;
    // Groups of four; where they do not come out even, the second overlaps the first.
    uint32_t overlap = 4 * t->groups - pixels, slot = 0;
    for (uint32_t at = 0; at < pixels;) {
        uint32_t n = (uint32_t)(out_w - *ox);
        uint32_t stop = overlap && at < 4 ? 4 : pixels;
        n = n < stop - at ? n : stop - at;
        put_row(t, slot, n, *oy, *ox, aligned);
        at += n;
        slot += n;
        *ox += (int32_t)n;
        if (*ox == out_w) {
            *ox = 0;
            ++*oy;
        }
        if (overlap && at == 4 && slot == 4) {
            at -= overlap;
            for (uint32_t back = overlap; back; --back) {
                if (*ox == 0) {
                    *ox = out_w;
                    --*oy;
                }
                --*ox;
            }
            if (t->groups == 1) {
                break;
            }
        }
    }
}

#endif

// Convolutions and matrix products with constant weights: the part of the image that some pixels see, with its edges,
// stands ready in the scratch, where windows are read. Bytes of scratch: the words of 16 rows of weights (depthwise: 40
// a tap) and that part of the image for one pixel or more. With less, in other groups, for codes of 4 bits and for
// factors above 1/2 slower kernels run.
#include "x86.h"
#ifdef MICA_X86

#include <string.h>

#include "shape.h"

#define SPARE 16 // bytes behind the image that a word may reach
#define FEW 4    // rows of a matrix: so few do not pay for weights in another order

// How the values of an image stand ready; MICA_X86_VECTOR: as they are.
static void ready(mica_x86_t how, uint8_t *to, const int8_t *x, size_t n) {
    if (how == MICA_X86_VECTOR) {
        memcpy(to, x, n);
    } else {
        (how == MICA_X86_VNNI ? mica_ready_vnni : mica_ready_avx2)(to, x, n);
    }
}

static void fill(mica_x86_t how, uint8_t *to, int8_t x_zero, size_t n) {
    if (how != MICA_X86_AVX2) {
        memset(to, (uint8_t)x_zero ^ (how == MICA_X86_VNNI ? 0x80 : 0), n);
        return;
    }
    for (int16_t *value = (int16_t *)(void *)to; n; --n) {
        *value++ = x_zero;
    }
}

// Row iy of the image, `columns` pixels from ix; `each`: bytes of a pixel.
static void row_ready(mica_x86_t how, const mica_conv2d_s8_t *p, uint8_t *to, size_t each, int32_t iy, int32_t ix,
    int32_t columns) {
    const mica_window_t *w = &p->win;
    const int32_t end = ix + columns, first = ix < 0 ? 0 : ix, last = end < w->in_w ? end : w->in_w;
    if (iy < 0 || iy >= w->in_h || first >= last) {
        fill(how, to, p->x_zero, (size_t)columns * w->in_c);
        return;
    }
    const size_t at = ((size_t)iy * w->in_w + (size_t)first) * w->in_c;
    fill(how, to, p->x_zero, (size_t)(first - ix) * w->in_c);
    ready(how, to + (size_t)(first - ix) * each, p->x + at, (size_t)(last - first) * w->in_c);
    fill(how, to + (size_t)(last - ix) * each, p->x_zero, (size_t)(end - last) * w->in_c);
}

// Pixels in a row whose windows see `size` pixels of x along it, up to `most`.
static uint32_t pixels_of(size_t size, uint32_t reach, uint32_t stride, uint32_t most) {
    const size_t n = size < reach ? 0 : (size - reach) / stride + 1;
    return n < most ? (uint32_t)n : most;
}

static bool shifts_down(const mica_channels_t *ch, uint32_t n) {
    int32_t least = 1;
    for (uint32_t o = 0; o < n && !ch->fast; ++o) {
        least = ch->shift[o] < least ? ch->shift[o] : least;
    }
    return least == 1;
}

// False where a slower kernel has to do it.
static bool run(const mica_conv2d_s8_t *p, bool depthwise, MICA_KERNEL_ARGS) {
    const mica_x86_t choice = mica_x86_choice(), how = depthwise ? MICA_X86_VECTOR : choice;
    const mica_window_t *w = &p->win;
    const uint32_t value = how == MICA_X86_AVX2 ? 2 : 1, reach_h = (w->kernel_h - 1u) * w->dilation_h + 1;
    const uint32_t reach_w = (w->kernel_w - 1u) * w->dilation_w + 1;
    const size_t each = (size_t)value * w->in_c;
    const bool whole = w->dilation_w == 1 && !depthwise;  // a row of taps is one piece
    mica_windows_t x = {
        .pixel_step = w->stride_w * each, .rows = w->kernel_h, .columns = whole ? 1 : w->kernel_w,
        .piece_column = w->dilation_w * each, .values = (whole ? w->kernel_w : 1u) * w->in_c,
    };
    x.steps = (x.values * value + 3) / 4;
    const size_t taps = (size_t)w->kernel_h * w->kernel_w;
    const size_t packed = depthwise ? (2 * MICA_BLOCK + 4) * (taps + 1)
        : 4 * MICA_BLOCK * (size_t)x.rows * x.columns * x.steps;
    const size_t room = scratch_bytes < packed + SPARE ? 0 : (scratch_bytes - packed - SPARE) / each;  // pixels
    // Several whole rows of the output, or a part of one.
    const uint32_t rows = pixels_of(room / ((w->out_w - 1u) * (size_t)w->stride_w + reach_w), reach_h, w->stride_h,
        row_end - row_begin);
    x.width = rows ? w->out_w : pixels_of(room / reach_h, reach_w, w->stride_w, w->out_w);
    if (choice == MICA_X86_VECTOR || MICA_CODED(p->ch.layout) || x.width == 0 || !shifts_down(&p->ch, w->out_c)) {
        return false;
    }
    uint8_t *image = (uint8_t *)scratch + packed;
    x.x = image;
    for (uint32_t oy = row_begin, n; oy < row_end; oy += n) {
        n = row_end - oy < rows ? row_end - oy : rows ? rows : 1;
        for (uint32_t ox = 0, m; ox < w->out_w; ox += m) {
            m = w->out_w - ox < x.width ? w->out_w - ox : x.width;
            const uint32_t seen = (m - 1) * w->stride_w + reach_w;
            x.piece_row = w->dilation_h * each * seen;
            x.row_step = w->stride_h * each * seen;
            for (uint32_t i = 0; i < (n - 1) * w->stride_h + reach_h; ++i) {
                const int32_t iy = (int32_t)(oy * w->stride_h + i) - w->pad_top,
                    ix = (int32_t)(ox * w->stride_w) - w->pad_left;
                row_ready(how, p, image + i * each * seen, each, iy, ix, (int32_t)seen);
            }
            int8_t *y = p->y + ((size_t)oy * w->out_w + ox) * w->out_c;
            (depthwise ? mica_depthwise : mica_gemm)(choice, &p->ch, w->out_c, &x, scratch, n * m, y);
        }
    }
    return true;
}

#ifndef MICA_WITHOUT_CONV2D_S8
void mica_conv2d_s8_x86(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    if (p->groups != 1 || !run(p, false, row_begin, row_end, scratch, scratch_bytes)) {
        mica_conv2d_s8_vector(p, row_begin, row_end, scratch, scratch_bytes);
    }
}
#endif

#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8
void mica_depthwise_conv2d_s8_x86(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_conv2d_s8_t same = { .x = p->x, .y = p->y, .ch = p->ch, .win = p->win, .x_zero = p->x_zero };
    const bool fits = p->win.in_c == p->win.out_c && p->win.in_c >= FEW && p->ch.layout == MICA_LAYOUT_PLAIN;
    if (!fits || !run(&same, true, row_begin, row_end, scratch, scratch_bytes)) {
        mica_depthwise_conv2d_s8_vector(p, row_begin, row_end, scratch, scratch_bytes);
    }
}
#endif

#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8
void mica_fully_connected_s8_x86(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    // Each row is a pixel.
    const uint16_t rows = (uint16_t)p->rows;
    const mica_conv2d_s8_t same = {
        .x = p->x, .y = p->y, .ch = p->ch,
        .win = { rows, 1, p->in_k, rows, 1, p->out_n, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1,
            .dilation_h = 1, .dilation_w = 1 },
    };
    const mica_x86_t choice = mica_x86_choice();
    if (row_end - row_begin < FEW && choice != MICA_X86_VECTOR && !MICA_CODED(p->ch.layout)
        && shifts_down(&p->ch, p->out_n)) {
        for (uint32_t row = row_begin; row < row_end; ++row) {
            mica_dense(choice, &p->ch, p->out_n, p->x + (size_t)row * p->in_k, p->in_k, p->y + (size_t)row * p->out_n);
        }
    } else if (rows != p->rows || !run(&same, false, row_begin, row_end, scratch, scratch_bytes)) {
        mica_fully_connected_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
    }
}
#endif

#endif

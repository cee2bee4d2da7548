// 2-D convolution: the part of the image that some pixels see, with its edges, stands ready in the scratch; windows are read there, in
// blocks of channels (gemm.c). Bytes of scratch: the words of 16 rows of weights, and that part of the image for one pixel or more.
// With less, in groups, for codes of 4 bits and for factors above 1/2 vector's kernel runs.
#include "host.h"
#if defined(MICA_HOST_X86) && !defined(MICA_WITHOUT_CONV2D_S8)

#include <string.h>

#include "shape.h"

#define SPARE 4 // bytes behind the image that a word may reach

// n values of x_zero.
static void fill(mica_host_t choice, uint8_t *to, int8_t x_zero, size_t n) {
    if (choice == MICA_HOST_VNNI) {
        memset(to, (uint8_t)x_zero ^ 0x80, n);
        return;
    }
    int16_t *values = (int16_t *)(void *)to;
    for (size_t i = 0; i < n; ++i) {
        values[i] = x_zero;
    }
}

// Row iy of the image, `columns` pixels from ix.
static void row_ready(mica_host_t choice, const mica_conv2d_s8_t *p, uint8_t *to, int32_t iy, int32_t ix, int32_t columns) {
    const mica_window_t *w = &p->win;
    const int32_t end = ix + columns, first = ix < 0 ? 0 : ix, last = end < w->in_w ? end : w->in_w;
    if (iy < 0 || iy >= w->in_h || first >= last) {
        fill(choice, to, p->x_zero, (size_t)columns * w->in_c);
        return;
    }
    const size_t each = (size_t)mica_value_bytes(choice) * w->in_c;
    fill(choice, to, p->x_zero, (size_t)(first - ix) * w->in_c);
    mica_ready(choice, to + (size_t)(first - ix) * each, p->x + ((size_t)iy * w->in_w + (size_t)first) * w->in_c, (size_t)(last - first) * w->in_c);
    fill(choice, to + (size_t)(last - ix) * each, p->x_zero, (size_t)(end - last) * w->in_c);
}

// Pixels in a row whose windows see `size` values along it, or 0.
static uint32_t pixels_of(size_t size, uint32_t reach, uint32_t stride, uint32_t most) {
    const size_t n = size < reach ? 0 : (size - reach) / stride + 1;
    return n < most ? (uint32_t)n : most;
}

void mica_conv2d_s8_host(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_host_t choice = mica_host_choice();
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    const bool whole = w->dilation_w == 1;  // a row of taps is one piece
    const size_t each = (size_t)mica_value_bytes(choice) * w->in_c;
    const uint32_t k = (uint32_t)w->kernel_h * w->kernel_w * w->in_c;
    const uint32_t reach_h = (w->kernel_h - 1u) * w->dilation_h + 1, reach_w = (w->kernel_w - 1u) * w->dilation_w + 1;
    mica_windows_t x = {
        .pixel_step = w->stride_w * each, .rows = w->kernel_h, .columns = whole ? 1 : w->kernel_w, .piece_column = w->dilation_w * each,
        .values = (whole ? w->kernel_w : 1u) * w->in_c,
    };
    x.steps = mica_steps(choice, x.values);
    const size_t packed = mica_packed_bytes(&x);
    const size_t room = scratch_bytes < packed + SPARE ? 0 : (scratch_bytes - packed - SPARE) / each;  // pixels of the image
    // Several whole rows of the output, or a part of one.
    const size_t columns = (w->out_w - 1u) * (size_t)w->stride_w + reach_w;
    const uint32_t rows = pixels_of(room / columns, reach_h, w->stride_h, row_end - row_begin);
    x.width = rows ? w->out_w : pixels_of(room / reach_h, reach_w, w->stride_w, w->out_w);
    if (choice == MICA_HOST_VECTOR || p->groups != 1 || MICA_CODED(ch->layout) || x.width == 0 || !mica_shifts_down(ch, w->out_c)) {
        mica_conv2d_s8_vector(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const mica_gemm_t g = { .ch = ch, .out_c = w->out_c, .row = mica_row_bytes(ch->layout, k), .packed = scratch };
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
                const int32_t iy = (int32_t)(oy * w->stride_h + i) - w->pad_top, ix = (int32_t)(ox * w->stride_w) - w->pad_left;
                row_ready(choice, p, image + i * each * seen, iy, ix, (int32_t)seen);
            }
            mica_gemm(choice, &g, &x, n * m, p->y + ((size_t)oy * w->out_w + ox) * w->out_c);
        }
    }
}

#endif

// Depthwise convolution on a Cortex-M0+: 3x3 taps with stride 1 or 2 (depthwise.S), and those along a line (line.S);
// all else goes to c32, or to the reference without its code.
// Bytes of scratch: 12 for each column of the padded image, 24 for every second row of the output; more: larger bands.
#include "kernels.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

#include "requant.h"
#include "shape.h"

static void others(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
#ifndef MICA_WITHOUT_WINDOWS
    mica_depthwise_conv2d_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
#else
    mica_depthwise_conv2d_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
#endif
}

#ifndef MICA_WITHOUT_LINES
// Where windows lie along a line, and none has taps outside: outputs [begin, end) of it; all, where they are not rows.
typedef struct {
    uint32_t begin, end;
} line_t;

static line_t inside_of(uint32_t in, uint32_t out, uint32_t pad, uint32_t stride, uint32_t reach) {
    const uint32_t begin = (pad + stride - 1) / stride, end = in + pad < reach ? 0 : (in + pad - reach) / stride + 1;
    return (line_t){begin < out ? begin : out, end < out ? end : out};
}

// Outputs one behind the other from x on.
static void line(const mica_depthwise_conv2d_s8_t *p, const int8_t *x, int8_t *y, uint32_t taps, uint32_t tap,
    uint32_t step, uint32_t n) {
    const mica_channels_t *ch = &p->ch;
    mica_line_t args = {
        .x = x,
        .y = y,
        .weights = ch->weights,
        .bias = ch->bias,
        .mult = ch->mult,
        .shift = ch->shift,
        .channels = p->win.out_c,
        .taps = taps,
        .tap = tap,
        .step = step,
        .count = n,
        .pitch = p->win.out_c,
        .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min),
        .low = ch->act_min,
    };
    mica_armv6m_line(&args);
}

// Rows [begin, end) along a line, down or across. Returns which of them are done; of few outputs none, since each
// channel begins with its weights.
static line_t lines(const mica_depthwise_conv2d_s8_t *p, uint32_t begin, uint32_t end) {
    const mica_window_t *w = &p->win;
    const uint32_t c = w->in_c;
    if (w->in_w == 1 && w->out_w == 1 && w->kernel_w == 1 && w->pad_left == 0 && w->kernel_h <= MICA_LINE_TAPS) {
        const uint32_t tap = w->dilation_h * c, reach = (w->kernel_h - 1u) * w->dilation_h + 1;
        line_t done = inside_of(w->in_h, w->out_h, w->pad_top, w->stride_h, reach);
        done.begin = done.begin > begin ? done.begin : begin;
        done.end = done.end < end ? done.end : end;
        if (done.begin + 1 < done.end) {
            const int8_t *x = p->x + (size_t)(done.begin * w->stride_h - w->pad_top) * c;
            line(p, x, p->y + (size_t)done.begin * c, w->kernel_h, tap, w->stride_h * c, done.end - done.begin);
            return done;
        }
    } else if (w->kernel_h == 1 && w->pad_top == 0 && (w->out_h - 1u) * w->stride_h < w->in_h && w->out_w > 1
        && w->kernel_w <= MICA_LINE_TAPS) {
        const uint32_t tap = w->dilation_w * c, reach = (w->kernel_w - 1u) * w->dilation_w + 1;
        const line_t all = inside_of(w->in_w, w->out_w, w->pad_left, w->stride_w, reach);
        if (all.begin == 0 && all.end == w->out_w) {
            for (uint32_t row = begin; row < end; ++row) {
                const int8_t *x = p->x + (size_t)row * w->stride_h * w->in_w * c;
                line(p, x, p->y + (size_t)row * w->out_w * c, w->kernel_w, tap, w->stride_w * c, w->out_w);
            }
            return (line_t){begin, end};
        }
    }
    return (line_t){begin, begin};
}
#endif

// A whole map of 2x2 with a pad of one.
static bool is_2x2(const mica_window_t *w, uint32_t rows) {
    return rows == 2 && w->stride_h == 1 && w->in_h == 2 && w->in_w == 2 && w->out_w == 2 && w->pad_top == 1
        && w->pad_left == 1;
}

// The table of bands of `high` rows of the output from row `begin` on, `rows` rows in all: their halves have `half`
// rows, `words` words a column. The last band overlaps the one before where they do not come out even. Returns its end.
static int32_t *put_table(const mica_window_t *w, int32_t *table, uint32_t begin, uint32_t rows, uint32_t high,
    uint32_t half, uint32_t words) {
    const uint32_t stride = w->stride_h;
    const int32_t row = (int32_t)w->in_w * w->in_c;
    for (uint32_t at = 0; at < rows; at += high) {
        const uint32_t first = at + high > rows ? rows - high : at;
        int32_t upper = (int32_t)((begin + first) * stride) - w->pad_top,
            lower = upper + (int32_t)((high - half) * stride);
        for (uint32_t n = words; n; --n, ++upper, ++lower) {
            *table++ = upper >= 0 && upper < w->in_h ? upper * row : MICA_OUTSIDE;
            *table++ = lower >= 0 && lower < w->in_h ? lower * row : MICA_OUTSIDE;
        }
    }
    return table;
}

void mica_depthwise_conv2d_s8_armv6m(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_window_t *w = &p->win;
    const mica_channels_t *ch = &p->ch;
    uint32_t stride = w->stride_w, rows = row_end - row_begin;
    uint32_t columns = (w->out_w - 1u) * stride + 3;
    uint32_t first = w->pad_left < columns ? w->pad_left : columns;
    uint32_t inside = columns - first < w->in_w ? columns - first : w->in_w;
    if (!ch->fast || ch->layout != MICA_LAYOUT_PLAIN || !mica_window_is_3x3(w, 2) || w->in_c != w->out_c || rows == 0
        || inside == 0 || (uint64_t)12 * columns + (uint64_t)24 * ((rows + 1) / 2) > scratch_bytes) {
        #ifndef MICA_WITHOUT_LINES
        line_t done = {row_begin, row_begin};
        if (ch->fast && ch->layout == MICA_LAYOUT_PLAIN && w->in_c == w->out_c && row_begin < row_end) {
            done = lines(p, row_begin, row_end);
        }
        if (row_begin < done.begin) {
            others(p, row_begin, done.begin, scratch, scratch_bytes);
        }
        row_begin = done.end;
        #endif
        if (row_begin < row_end) {
            others(p, row_begin, row_end, scratch, scratch_bytes);
        }
        return;
    }
    const uint32_t pitch = (uint32_t)w->out_w * w->out_c;
    mica_depthwise_t args = {
        .x = p->x,
        .y = p->y + (size_t)row_begin * pitch,
        .weights = ch->weights,
        .bias = ch->bias,
        .mult = ch->mult,
        .shift = ch->shift,
        .channels = w->out_c,
        .inside = inside * w->in_c,
        .step = w->in_c,
        .row_step = 4 * stride,
        .pitch = (int32_t)pitch,
        .zero = ch->y_zero - ch->act_min,
        .range = (uint32_t)(ch->act_max - ch->act_min),
        .low = ch->act_min,
        .x_zero = p->x_zero,
    };
    if (is_2x2(w, rows) && row_begin == 0) {
        mica_armv6m_depthwise_2x2(&args);
        return;
    }
    uint32_t bands = 0, high, half, words;
    do {  // as few as there is room for
        ++bands;
        high = (rows + bands - 1) / bands;
        half = (high + 1) / 2;
        words = (half - 1) * stride + 3;
    } while (half > 1 && 4 * columns * words + bands * 8 * words > scratch_bytes);
    args.table = scratch;
    args.table_end = put_table(w, scratch, row_begin, rows, high, half, words);
    uint32_t *to = (uint32_t *)(uintptr_t)args.table_end;
    const uint32_t outside = (uint32_t)p->x_zero + ((uint32_t)p->x_zero << 16);
    for (uint32_t *end = to + columns * words; end != to;) {
        *--end = outside;
    }
    args.band = 8 * words;
    args.to = to + words * first;
    args.column = 4 * words;
    args.windows = to;
    args.next = 4 * ((int32_t)stride - 2) * (int32_t)words - 12;
    args.lower = (high - half) * pitch;
    args.half = half * pitch;
    args.high = high * pitch;
    args.last = (rows - high) * pitch;
    args.zero = args.range == 255 ? ch->y_zero : args.zero;
    mica_armv6m_depthwise(&args);
}

#endif

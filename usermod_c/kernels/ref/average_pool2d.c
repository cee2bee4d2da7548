// Mean of each window, rescaled; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8

#include "requant.h"
#include "shape.h"

// Every window of one axis holds at least one element of the image.
static bool every_window_hits(uint32_t size, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t pad) {
    return pad < kernel && (out - 1) * stride < size + pad;  // reach_fits: the product is below 2^30
}

mica_status_t mica_average_pool2d_s8_check(const mica_average_pool2d_s8_t *p, const char **what) {
    const mica_window_t *w = &p->win;
    mica_status_t status = mica_window_check(w, what);
    if (status != MICA_OK) {
        return status;
    }
    uint32_t taps = mica_product(w->kernel_h, w->kernel_w, 1, 1);
    if (w->in_c != w->out_c || w->dilation_h != 1 || w->dilation_w != 1 || p->count_include_pad > 1) {
        *what = "input and output differ in channels, dilation is not 1, or count_include_pad is neither 0 nor 1";
        return MICA_ERR_SHAPE;
    }
    if (!every_window_hits(w->in_h, w->out_h, w->kernel_h, w->stride_h, w->pad_top)
        || !every_window_hits(w->in_w, w->out_w, w->kernel_w, w->stride_w, w->pad_left)) {
        *what = "a window lies wholly outside the input";
        return MICA_ERR_SHAPE;
    }
    if (taps > INT32_MAX / 255) {
        *what = "a window is so large that its sum can overflow";
        return MICA_ERR_SHAPE;
    }
    if (p->entries != 1 && p->entries != taps) {
        *what = "mult and shift want 1 entry, or one for each number of taps";
        return MICA_ERR_SHAPE;
    }
    return mica_act_check(p->act_min, p->act_max, what);
}

mica_status_t mica_average_pool2d_s8_check_constants(const mica_average_pool2d_s8_t *p, const char **what) {
    return mica_requant_check(p->mult, p->shift, p->entries, what);
}

uint32_t mica_average_pool2d_s8_rows(const mica_average_pool2d_s8_t *p) {
    return p->win.out_h;
}

// Taps of a window inside the image and its pads.
static int32_t padded_taps(int32_t start, int32_t size, int32_t kernel, int32_t pad_end) {
    int32_t left = size + pad_end - start;
    return left < kernel ? left : kernel;
}

void mica_average_pool2d_s8_ref(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    int32_t channels = win->in_c;
    int8_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;

    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, 1, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, 1, &kx0, &kx1);
            int32_t inside = (ky1 - ky0) * (kx1 - kx0);
            int32_t n = inside;
            if (p->count_include_pad) {
                n = padded_taps(iy, win->in_h, win->kernel_h, p->pad_bottom)
                    * padded_taps(ix, win->in_w, win->kernel_w, p->pad_right);
            }
            int32_t e = p->entries == 1 ? 0 : n - 1;
            const int8_t *first = p->x + ((iy + ky0) * win->in_w + ix + kx0) * channels;
            for (int32_t c = 0; c < channels; ++c, ++first) {
                int32_t acc = -inside * p->x_zero;
                const int8_t *x_row = first;
                for (int32_t ky = ky0; ky < ky1; ++ky, x_row += win->in_w * channels) {
                    const int8_t *x = x_row;
                    for (int32_t kx = kx0; kx < kx1; ++kx, x += channels) {
                        acc += *x;
                    }
                }
                *y++ = mica_requant_s8(acc, p->mult[e], p->shift[e], p->y_zero, p->act_min, p->act_max);
            }
        }
    }
}

#endif

// 2-D convolution of int16; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_CONV2D_S16

#include "shape.h"
#include "wide.h"

#define MOST_PRODUCTS 256  // of an int16 and an int8 that an int32 holds: 256 * 2^15 * 2^7 = 2^30

mica_status_t mica_conv2d_s16_check(const mica_conv2d_s16_t *p, const char **what) {
    return mica_groups_check(&p->win, p->groups, what);
}

uint32_t mica_conv2d_s16_reduction(const mica_conv2d_s16_t *p) {
    return (uint32_t)p->win.kernel_h * p->win.kernel_w * (p->win.in_c / p->groups);
}

mica_status_t mica_conv2d_s16_check_constants(const mica_conv2d_s16_t *p, const char **what) {
    const uint32_t k = mica_conv2d_s16_reduction(p);
    mica_status_t status = mica_requant_check(p->mult, p->shift, p->win.out_c, what);
    const int8_t *w = p->weights;
    for (uint32_t o = 0; status == MICA_OK && o < p->win.out_c; ++o) {
        uint64_t reach = 0;
        for (const int8_t *end = w + k; w != end; ++w) {
            const int32_t weight = *w;
            reach += (uint64_t)(weight < 0 ? -weight : weight);
        }
        reach = (reach << 15) + (p->bias[o] < 0 ? 0u - (uint32_t)p->bias[o] : (uint32_t)p->bias[o]);
        if (reach >> 47 || ((reach >> 16) + 1) * (uint32_t)p->mult[o] > (uint64_t)1 << 46) {
            *what = "a sum, or its product with mult, can overflow";
            status = MICA_ERR_RANGE;
        }
    }
    return status;
}

uint32_t mica_conv2d_s16_rows(const mica_conv2d_s16_t *p) {
    return p->win.out_h;
}

static int64_t dot(int64_t acc, const int16_t *x, const int8_t *w, int32_t n) {
    while (n > 0) {
        const int32_t most = n < MOST_PRODUCTS ? n : MOST_PRODUCTS;
        int32_t part = 0;
        for (const int8_t *end = w + most; w != end;) {
            part += *x++ * *w++;
        }
        acc += part;
        n -= most;
    }
    return acc;
}

void mica_conv2d_s16_ref(const mica_conv2d_s16_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    const int32_t in_c = win->in_c, group_in = in_c / p->groups, group_out = win->out_c / p->groups;
    const int32_t reduction = (int32_t)mica_conv2d_s16_reduction(p);
    // Taps of a row lie side by side, as their weights do, where they are all the channels of neighbours.
    const bool side_by_side = p->groups == 1 && win->dilation_w == 1;
    int16_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        const int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            const int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, win->dilation_w, &kx0, &kx1);
            const int32_t columns = side_by_side ? kx0 < kx1 : kx1 - kx0;
            const int32_t n = side_by_side ? (kx1 - kx0) * group_in : group_in;
            for (int32_t o = 0; o < win->out_c; ++o) {
                int64_t acc = p->bias[o];
                for (int32_t ky = ky0; ky < ky1; ++ky) {
                    for (int32_t k = 0; k < columns; ++k) {
                        const int32_t kx = kx0 + k;
                        const int32_t pixel = (iy + ky * win->dilation_h) * win->in_w + ix + kx * win->dilation_w;
                        acc = dot(acc, p->x + pixel * in_c + o / group_out * group_in,
                            p->weights + o * reduction + (ky * win->kernel_w + kx) * group_in, n);
                    }
                }
                *y++ = (int16_t)mica_requant_s16(acc, p->mult[o], p->shift[o], p->act_min, p->act_max);
            }
        }
    }
}

#endif

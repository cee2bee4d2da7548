// Mean or largest value of each window of int16; contract in mica_kernels.h.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_POOL_S16

#include "shape.h"
#include "wide.h"

mica_status_t mica_pool_s16_check(const mica_pool_s16_t *p, const char **what) {
    const mica_window_t *w = &p->win;
    mica_status_t status = mica_window_check(w, what);
    const uint32_t taps = (uint32_t)w->kernel_h * w->kernel_w;
    if (status == MICA_OK && (w->in_c != w->out_c || (!p->largest && taps > UINT16_MAX))) {
        *what = "input and output differ in channels, or a window has more than 65535 taps";
        status = MICA_ERR_SHAPE;
    } else if (status == MICA_OK && (p->largest ? p->entries != 0 : p->entries != 1 && p->entries != taps)) {
        *what = "mult and shift want 1 entry, or one for each number of taps";
        status = MICA_ERR_SHAPE;
    }
    return status;
}

mica_status_t mica_pool_s16_check_constants(const mica_pool_s16_t *p, const char **what) {
    return mica_requant_check(p->mult, p->shift, p->entries, what);
}

uint32_t mica_pool_s16_rows(const mica_pool_s16_t *p) {
    return p->win.out_h;
}

void mica_pool_s16_ref(const mica_pool_s16_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    const mica_window_t *win = &p->win;
    const int32_t channels = win->in_c;
    int16_t *y = p->y + (size_t)row_begin * win->out_w * win->out_c;
    for (uint32_t oy = row_begin; oy < row_end; ++oy) {
        const int32_t iy = (int32_t)oy * win->stride_h - win->pad_top;
        int32_t ky0, ky1;
        mica_taps(iy, win->in_h, win->kernel_h, win->dilation_h, &ky0, &ky1);
        for (int32_t ox = 0; ox < win->out_w; ++ox) {
            const int32_t ix = ox * win->stride_w - win->pad_left;
            int32_t kx0, kx1;
            mica_taps(ix, win->in_w, win->kernel_w, win->dilation_w, &kx0, &kx1);
            const int32_t inside = (ky1 - ky0) * (kx1 - kx0), e = p->entries == 1 || inside == 0 ? 0 : inside - 1;
            for (int32_t c = 0; c < channels; ++c) {
                int32_t sum = 0, most = p->act_min;
                for (int32_t ky = ky0; ky < ky1; ++ky) {
                    for (int32_t kx = kx0; kx < kx1; ++kx) {
                        const int32_t pixel = (iy + ky * win->dilation_h) * win->in_w + ix + kx * win->dilation_w;
                        const int32_t x = p->x[pixel * channels + c];
                        sum += p->largest ? 0 : x;
                        most = x > most ? x : most;
                    }
                }
                if (p->largest) {
                    *y++ = (int16_t)(most < p->act_max ? most : p->act_max);
                } else {
                    // A mean half-way between two integers goes away from zero.
                    const int32_t mean = mica_requant_s16(sum < 0 ? -(int64_t)sum : sum, p->mult[e], p->shift[e], 0,
                        1 << 16);
                    const int32_t v = sum < 0 ? -mean : mean;
                    *y++ = (int16_t)(v < p->act_min ? p->act_min : v > p->act_max ? p->act_max : v);
                }
            }
        }
    }
}

#endif

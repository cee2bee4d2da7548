// mica: kernels in plain C for 32-bit cores with a fast multiplier and a dozen registers, and no more.
#ifndef MICA_C32_KERNELS_H
#define MICA_C32_KERNELS_H

#include "mica_kernels.h"
#include "mica_port.h"
#include "requant.h"

void mica_conv2d_s8_c32(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_c32(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_c32(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_average_pool2d_s8_c32(const mica_average_pool2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_max_pool2d_s8_c32(const mica_max_pool2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_add_s8_c32(const mica_add_s8_t *p, MICA_KERNEL_ARGS);
void mica_mul_s8_c32(const mica_mul_s8_t *p, MICA_KERNEL_ARGS);
void mica_lut_s8_c32(const mica_lut_s8_t *p, MICA_KERNEL_ARGS);
void mica_attend_s8_c32(const mica_attend_s8_t *p, MICA_KERNEL_ARGS);
void mica_log_mel_s8_c32(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS);
void mica_pcen_s8_c32(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS);
void mica_axes_s8_c32(const mica_axes_s8_t *p, MICA_KERNEL_ARGS);
void mica_pcan_s8_c32(const mica_pcan_s8_t *p, MICA_KERNEL_ARGS);

// A condition that compilers had better put out of the way.
#define MICA_RARELY(condition) __builtin_expect(condition, 0)

// n bytes, of any alignment.
static inline void mica_copy(int8_t *to, const int8_t *from, uint32_t n) {
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0) {
        for (; n >= 4; n -= 4, to += 4, from += 4) {
            *(mica_word_t *)(void *)to = *(const mica_word_t *)(const void *)from;
        }
    }
    for (; n; --n) {
        *to++ = *from++;
    }
}

static inline void mica_fill(int8_t *to, int8_t value, uint32_t n) {
    for (; n; --n) {
        *to++ = value;
    }
}

// True if all windows are two by two taps inside the image, and nothing clamps.
static inline bool mica_pool_is_2x2(const mica_max_pool2d_s8_t *p) {
    const mica_window_t *w = &p->win;
    return w->kernel_h == 2 && w->kernel_w == 2 && w->pad_top == 0 && w->pad_left == 0 && p->act_min == -128
        && p->act_max == 127 && (w->out_h - 1) * w->stride_h + w->dilation_h < w->in_h
        && (w->out_w - 1) * w->stride_w + w->dilation_w < w->in_w;
}

#endif

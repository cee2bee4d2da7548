// What loops of sound share: a row of log_mel_s8 to int8, with a product of 32 bits where sums are small.
#ifndef MICA_C32_SOUND_H
#define MICA_C32_SOUND_H

#include "../../log_mel.h"
#include "kernels.h"

#define MICA_LOG_MEL_FAST (1 << 29)

static inline void mica_log_mel_rounded(const mica_log_mel_s8_t *p, const int32_t *v, uint32_t c, uint32_t n,
    int8_t *y) {
    const int32_t mult = p->mult, shift = p->shift, zero = p->y_zero, low = p->act_min, high = p->act_max;
    const int32_t *bias = p->bias;
    for (const uint32_t end = c + n; c < end; ++c, ++v) {
        const int32_t sum = *v + bias[c];
        if (sum <= -MICA_LOG_MEL_FAST || sum >= MICA_LOG_MEL_FAST || shift < 1) {
            mica_log_mel_loops.round(p, v, c, 1, y);
        } else {
            y[c] = mica_requant_fast(sum, mult, shift, zero, low, high);
        }
    }
}

#endif

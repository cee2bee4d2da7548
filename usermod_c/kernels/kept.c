#include "kept.h"

#include "mica_kernels.h"
#if !defined(MICA_WITHOUT_PCAN_S8) || !defined(MICA_WITHOUT_PCEN_S8)

void mica_kept_take(uint32_t *words, const int8_t *rows, uint32_t bands, int32_t zero) {
    for (uint32_t b = 0; b < bands; ++b) {
        words[b] = 0;
        for (uint32_t k = 4; rows && k--;) {
            words[b] = words[b] << 8 | (uint8_t)(rows[k * bands + b] - zero);
        }
    }
}

void mica_kept_put(int8_t *rows, const uint32_t *words, uint32_t bands, int32_t zero) {
    for (uint32_t k = 0; k < 32; k += 8) {
        for (uint32_t b = 0; b < bands; ++b) {
            const int32_t byte = (int32_t)((words[b] >> k) + (uint32_t)zero) & 0xff;
            *rows++ = (int8_t)(byte < 128 ? byte : byte - 256);
        }
    }
}

#endif

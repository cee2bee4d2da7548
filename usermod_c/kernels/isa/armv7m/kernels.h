// mica: kernels for a Cortex-M3: their assembly, as C sees it.
#ifndef MICA_ARMV7M_KERNELS_H
#define MICA_ARMV7M_KERNELS_H

#include "../c32/kernels.h"

// Adds to two sums: `words` words of x, 1 or more, as crossed pairs, with two rows of weights as stored (dense.S).
void mica_armv7m_dense(int32_t *sums, const uint32_t *x, uint32_t words, const int8_t *w, uint32_t row);

void mica_fully_connected_s8_armv7m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);

#endif

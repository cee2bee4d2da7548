// mica: what the kernels of int16 tensors share.
#ifndef MICA_WIDE_H
#define MICA_WIDE_H

#include "mica_kernels.h"

// (acc * mult + 2^(30+shift)) >> (31+shift), between low and high, int16; |acc| * mult < 2^62, shift in [-30, 31].
int32_t mica_requant_s16(int64_t acc, int32_t mult, int32_t shift, int32_t low, int32_t high);

#endif

// Cortex-M3: 32-bit multiply-accumulate, no SIMD; the portable kernels suit it.
#ifndef MICA_SELECT_ARMV7M_H
#define MICA_SELECT_ARMV7M_H

#include "../c32/mica_select.h"

#undef MICA_ISA
#define MICA_ISA "armv7m"

#endif

// Cortex-M3: 32-bit multiply-accumulate, operands shifted for nothing, no SIMD.
#ifndef MICA_SELECT_ARMV7M_H
#define MICA_SELECT_ARMV7M_H

#include "../c32/mica_select.h"
#include "kernels.h"

#undef MICA_ISA
#define MICA_ISA "armv7m"

#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_armv7m

#endif

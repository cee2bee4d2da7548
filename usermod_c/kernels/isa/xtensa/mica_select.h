// Xtensa: 32-bit registers, no SIMD that all its cores share; the portable kernels suit it.
#ifndef MICA_SELECT_XTENSA_H
#define MICA_SELECT_XTENSA_H

#include "../c32/mica_select.h"

#undef MICA_ISA
#define MICA_ISA "xtensa"

#endif

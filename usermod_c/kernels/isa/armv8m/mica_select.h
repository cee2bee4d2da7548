// Cortex-M33 (RP2350): the DSP instructions are the M4's.
#ifndef MICA_SELECT_ARMV8M_H
#define MICA_SELECT_ARMV8M_H

#include "../armv7em/mica_select.h"

#undef MICA_ISA
#define MICA_ISA "armv8m"

#endif

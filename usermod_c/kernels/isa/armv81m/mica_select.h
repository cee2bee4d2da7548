// Cortex-M55 and M85: the DSP instructions are the M4's.
#ifndef MICA_SELECT_ARMV81M_H
#define MICA_SELECT_ARMV81M_H

#include "../armv7em/mica_select.h"

#undef MICA_ISA
#define MICA_ISA "armv81m"

#endif

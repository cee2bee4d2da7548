// Cortex-M4 and M7, and whatever else has the DSP instructions: two int16 products an instruction.
#ifndef MICA_SELECT_ARMV7EM_H
#define MICA_SELECT_ARMV7EM_H

#include "../c32/mica_select.h"
#include "kernels.h"

#undef MICA_ISA
#define MICA_ISA "armv7em"

#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_armv7em
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_armv7em
#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_armv7em
#undef MICA_ADD_S8
#define MICA_ADD_S8 mica_add_s8_armv7em
#undef MICA_AVERAGE_POOL2D_S8
#define MICA_AVERAGE_POOL2D_S8 mica_average_pool2d_s8_armv7em
#undef MICA_MAX_POOL2D_S8
#define MICA_MAX_POOL2D_S8 mica_max_pool2d_s8_armv7em

#endif

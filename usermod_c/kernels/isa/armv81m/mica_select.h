// Cortex-M55 and M85: sixteen int8 products an instruction. What has no kernel here has the DSP instructions' one.
#ifndef MICA_SELECT_ARMV81M_H
#define MICA_SELECT_ARMV81M_H

#include "../armv7em/mica_select.h"
#include "kernels.h"

#undef MICA_ISA
#define MICA_ISA "armv81m"

#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_armv81m
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_armv81m
#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_armv81m
#undef MICA_ADD_S8
#define MICA_ADD_S8 mica_add_s8_armv81m
#undef MICA_AVERAGE_POOL2D_S8
#define MICA_AVERAGE_POOL2D_S8 mica_average_pool2d_s8_armv81m
#undef MICA_MAX_POOL2D_S8
#define MICA_MAX_POOL2D_S8 mica_max_pool2d_s8_armv81m
#undef MICA_LOG_MEL_S8
#define MICA_LOG_MEL_S8 mica_log_mel_s8_armv81m
#undef MICA_PCEN_S8
#define MICA_PCEN_S8 mica_pcen_s8_armv81m
#undef MICA_AXES_S8
#define MICA_AXES_S8 mica_axes_s8_armv81m

#endif

// Any 32-bit core: what the folder of an instruction set without assembly of its own includes.
#ifndef MICA_SELECT_C32_H
#define MICA_SELECT_C32_H

#include "../ref/mica_select.h"
#include "kernels.h"

#undef MICA_ISA
#define MICA_ISA "c32"

#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_c32
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_c32
#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_c32
#undef MICA_AVERAGE_POOL2D_S8
#define MICA_AVERAGE_POOL2D_S8 mica_average_pool2d_s8_c32
#undef MICA_MAX_POOL2D_S8
#define MICA_MAX_POOL2D_S8 mica_max_pool2d_s8_c32
#undef MICA_ADD_S8
#define MICA_ADD_S8 mica_add_s8_c32
#undef MICA_MUL_S8
#define MICA_MUL_S8 mica_mul_s8_c32
#undef MICA_LUT_S8
#define MICA_LUT_S8 mica_lut_s8_c32
#undef MICA_ATTEND_S8
#define MICA_ATTEND_S8 mica_attend_s8_c32
#undef MICA_LOG_MEL_S8
#define MICA_LOG_MEL_S8 mica_log_mel_s8_c32
#undef MICA_PCEN_S8
#define MICA_PCEN_S8 mica_pcen_s8_c32
#undef MICA_AXES_S8
#define MICA_AXES_S8 mica_axes_s8_c32
#undef MICA_PCAN_S8
#define MICA_PCAN_S8 mica_pcan_s8_c32

#endif

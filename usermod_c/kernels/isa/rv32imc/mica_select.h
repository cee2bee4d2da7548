// RV32IMC: a multiplier, 31 registers, neither SIMD nor a carry.
#ifndef MICA_SELECT_RV32IMC_H
#define MICA_SELECT_RV32IMC_H

#include "../c32/mica_select.h"
#include "kernels.h"

#undef MICA_ISA
#define MICA_ISA "rv32imc"

#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_rv32imc
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_rv32imc
#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_rv32imc

#endif

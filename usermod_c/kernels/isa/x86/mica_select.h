// The computer that runs `mica`: on x86-64 the engine looks at its processor, else the compiler's vectors work.
#ifndef MICA_SELECT_X86_H
#define MICA_SELECT_X86_H

#include "../vector/mica_select.h"
#include "x86.h"

#ifdef MICA_X86
#undef MICA_ISA
#define MICA_ISA mica_x86_isa()
#undef MICA_ADD_S8
#define MICA_ADD_S8 mica_add_s8_x86
#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_x86
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_x86
#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_x86
#endif

#endif

// The computer that runs `mica`: on x86-64 what its processor can do is found out at run time, elsewhere it is the compiler's vectors.
#ifndef MICA_SELECT_HOST_H
#define MICA_SELECT_HOST_H

#include "../vector/mica_select.h"
#include "host.h"

#ifdef MICA_HOST_X86

#undef MICA_ISA
#define MICA_ISA mica_host_name(mica_host_choice())

#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_host
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_host
#undef MICA_FULLY_CONNECTED_S8
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_host
#undef MICA_ADD_S8
#define MICA_ADD_S8 mica_add_s8_host

#endif

#endif

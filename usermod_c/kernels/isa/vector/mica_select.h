// A computer with vectors: the engine in browsers, and of `mica` itself where x86 does not stand before it.
#ifndef MICA_SELECT_VECTOR_H
#define MICA_SELECT_VECTOR_H

#include "../c32/mica_select.h"
#include "kernels.h"

#undef MICA_ISA
#define MICA_ISA "vector"

#undef MICA_CONV2D_S8
#define MICA_CONV2D_S8 mica_conv2d_s8_vector
#undef MICA_DEPTHWISE_CONV2D_S8
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_vector

#endif

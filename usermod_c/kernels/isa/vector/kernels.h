// mica: kernels in plain C that compilers turn into vector code: products of 16 bits, summed in 32, over whole rows.
#ifndef MICA_VECTOR_KERNELS_H
#define MICA_VECTOR_KERNELS_H

#include "../c32/kernels.h"

void mica_conv2d_s8_vector(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_vector(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);

#endif

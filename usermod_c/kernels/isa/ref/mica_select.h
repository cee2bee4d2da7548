// The reference kernels, for every core. A folder for an instruction set holds its own file of this name, which names the
// winner for each operator; the build puts one such folder on the include path.
#ifndef MICA_SELECT_H
#define MICA_SELECT_H

#include "mica_kernels.h"

#define MICA_ISA "ref"

#define MICA_CONV2D_S8 mica_conv2d_s8_ref
#define MICA_DEPTHWISE_CONV2D_S8 mica_depthwise_conv2d_s8_ref
#define MICA_CONV_TRANSPOSE2D_S8 mica_conv_transpose2d_s8_ref
#define MICA_FULLY_CONNECTED_S8 mica_fully_connected_s8_ref
#define MICA_MAX_POOL2D_S8 mica_max_pool2d_s8_ref
#define MICA_AVERAGE_POOL2D_S8 mica_average_pool2d_s8_ref
#define MICA_ADD_S8 mica_add_s8_ref
#define MICA_SOFTMAX_S8 mica_softmax_s8_ref
#define MICA_LUT_S8 mica_lut_s8_ref
#define MICA_TRANSPOSE_S8 mica_transpose_s8_ref
#define MICA_MOVE_S8 mica_move_s8_ref
#define MICA_CONCAT_S8 mica_concat_s8_ref
#define MICA_PAD_S8 mica_pad_s8_ref
#define MICA_GATHER_S8 mica_gather_s8_ref
#define MICA_RESIZE_LINEAR_S8 mica_resize_linear_s8_ref
#define MICA_EMBEDDING_S8 mica_embedding_s8_ref
#define MICA_MUL_S8 mica_mul_s8_ref
#define MICA_MINMAX_S8 mica_minmax_s8_ref
#define MICA_MATMUL_S8 mica_matmul_s8_ref
#define MICA_REDUCE_S8 mica_reduce_s8_ref
#define MICA_ARGMAX_S8 mica_argmax_s8_ref
#define MICA_DIV_S8 mica_div_s8_ref
#define MICA_LAYER_NORM_S8 mica_layer_norm_s8_ref
#define MICA_LOG_SOFTMAX_S8 mica_log_softmax_s8_ref
#define MICA_RECURRENT_S8 mica_recurrent_s8_ref

#endif

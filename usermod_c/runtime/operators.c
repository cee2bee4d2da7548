// mica: which operators this build has. -DMICA_WITHOUT_<KERNEL> leaves one out, here, in op_<operator>.c and in the kernels.
#include "op.h"

mica_step_loader_t mica_step_loader(uint32_t kernel) {
    switch (kernel) {
        #ifndef MICA_WITHOUT_CONV2D_S8
        case MICA_KERNEL_CONV2D_S8:
            return mica_load_conv2d;
        #endif
        #ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8
        case MICA_KERNEL_DEPTHWISE_CONV2D_S8:
            return mica_load_depthwise_conv2d;
        #endif
        #ifndef MICA_WITHOUT_CONV_TRANSPOSE2D_S8
        case MICA_KERNEL_CONV_TRANSPOSE2D_S8:
            return mica_load_conv_transpose2d;
        #endif
        #ifndef MICA_WITHOUT_FULLY_CONNECTED_S8
        case MICA_KERNEL_FULLY_CONNECTED_S8:
            return mica_load_fully_connected;
        #endif
        #ifndef MICA_WITHOUT_MAX_POOL2D_S8
        case MICA_KERNEL_MAX_POOL2D_S8:
            return mica_load_max_pool2d;
        #endif
        #ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8
        case MICA_KERNEL_AVERAGE_POOL2D_S8:
            return mica_load_average_pool2d;
        #endif
        #ifndef MICA_WITHOUT_ADD_S8
        case MICA_KERNEL_ADD_S8:
            return mica_load_add;
        #endif
        #ifndef MICA_WITHOUT_SOFTMAX_S8
        case MICA_KERNEL_SOFTMAX_S8:
            return mica_load_softmax;
        #endif
        #ifndef MICA_WITHOUT_LUT_S8
        case MICA_KERNEL_LUT_S8:
            return mica_load_lut;
        #endif
        #ifndef MICA_WITHOUT_TRANSPOSE_S8
        case MICA_KERNEL_TRANSPOSE_S8:
            return mica_load_transpose;
        #endif
        #ifndef MICA_WITHOUT_MOVE_S8
        case MICA_KERNEL_MOVE_S8:
            return mica_load_move;
        #endif
        #ifndef MICA_WITHOUT_CONCAT_S8
        case MICA_KERNEL_CONCAT_S8:
            return mica_load_concat;
        #endif
        #ifndef MICA_WITHOUT_PAD_S8
        case MICA_KERNEL_PAD_S8:
            return mica_load_pad;
        #endif
        #ifndef MICA_WITHOUT_GATHER_S8
        case MICA_KERNEL_GATHER_S8:
            return mica_load_gather;
        #endif
        #ifndef MICA_WITHOUT_RESIZE_LINEAR_S8
        case MICA_KERNEL_RESIZE_LINEAR_S8:
            return mica_load_resize_linear;
        #endif
        #ifndef MICA_WITHOUT_EMBEDDING_S8
        case MICA_KERNEL_EMBEDDING_S8:
            return mica_load_embedding;
        #endif
        #ifndef MICA_WITHOUT_MUL_S8
        case MICA_KERNEL_MUL_S8:
            return mica_load_mul;
        #endif
        #ifndef MICA_WITHOUT_MINMAX_S8
        case MICA_KERNEL_MINMAX_S8:
            return mica_load_minmax;
        #endif
        #ifndef MICA_WITHOUT_MATMUL_S8
        case MICA_KERNEL_MATMUL_S8:
            return mica_load_matmul;
        #endif
        #ifndef MICA_WITHOUT_REDUCE_S8
        case MICA_KERNEL_REDUCE_S8:
            return mica_load_reduce;
        #endif
        #ifndef MICA_WITHOUT_ARGMAX_S8
        case MICA_KERNEL_ARGMAX_S8:
            return mica_load_argmax;
        #endif
        #ifndef MICA_WITHOUT_DIV_S8
        case MICA_KERNEL_DIV_S8:
            return mica_load_div;
        #endif
        #ifndef MICA_WITHOUT_LAYER_NORM_S8
        case MICA_KERNEL_LAYER_NORM_S8:
            return mica_load_layer_norm;
        #endif
        #ifndef MICA_WITHOUT_LOG_SOFTMAX_S8
        case MICA_KERNEL_LOG_SOFTMAX_S8:
            return mica_load_log_softmax;
        #endif
        #ifndef MICA_WITHOUT_RECURRENT_S8
        case MICA_KERNEL_RECURRENT_S8:
            return mica_load_recurrent;
        #endif
        default:
            return NULL;
    }
}

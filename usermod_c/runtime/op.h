// mica: the loaders of the operators. mica_load_<operator> reads a step's record into the kernel's parameters, has the
// kernel check them, and leaves in the step a function that runs it.
#ifndef MICA_OP_H
#define MICA_OP_H

#include "mica_select.h"
#include "model.h"

mica_status_t mica_load_conv2d(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_depthwise_conv2d(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_conv_transpose2d(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_fully_connected(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_max_pool2d(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_average_pool2d(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_add(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_softmax(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_lut(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_transpose(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_move(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_concat(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_pad(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_gather(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_resize_linear(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_embedding(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_mul(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_minmax(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_matmul(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_reduce(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_argmax(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_div(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_layer_norm(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_log_softmax(mica_step_record_t *r, mica_step_t *s);
mica_status_t mica_load_recurrent(mica_step_record_t *r, mica_step_t *s);

#endif

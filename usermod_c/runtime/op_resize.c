#include "op.h"

#ifndef MICA_WITHOUT_RESIZE_LINEAR_S8
MICA_LOAD_ROWS(resize_linear, RESIZE_LINEAR) {
    p->y = r->y.data;
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    p->x = x->data;
    p->row_taps = (uint8_t)mica_load_param(r, MICA_RESIZE_LINEAR_S8_PARAM_ROW_TAPS, 1, 255);
    p->column_taps = (uint8_t)mica_load_param(r, MICA_RESIZE_LINEAR_S8_PARAM_COLUMN_TAPS, 1, 255);
    bool images = x->rank == 4 && y->rank == 4 && x->dims[0] == 1 && y->dims[0] == 1 && x->dims[3] == y->dims[3];
    if (!mica_load_require(r, images, MICA_ERR_SHAPE, "input and output want the shape [1, H, W, C]")
        || !mica_load_same_scale(r)) {
        return;
    }
    p->in_h = (uint16_t)x->dims[1];
    p->in_w = (uint16_t)x->dims[2];
    p->in_c = (uint16_t)x->dims[3];
    p->out_h = (uint16_t)y->dims[1];
    p->out_w = (uint16_t)y->dims[2];
    size_t row_weights = (size_t)p->out_h * p->row_taps * 2, column_weights = (size_t)p->out_w * p->column_taps * 2;
    p->rows = mica_load_blob(r, MICA_RESIZE_LINEAR_S8_BLOB_ROWS, (size_t)p->out_h * 2, MICA_BLOB_ALIGN);
    p->row_weights = mica_load_blob(r, MICA_RESIZE_LINEAR_S8_BLOB_ROW_WEIGHTS, row_weights, MICA_BLOB_ALIGN);
    p->columns = mica_load_blob(r, MICA_RESIZE_LINEAR_S8_BLOB_COLUMNS, (size_t)p->out_w * 2, MICA_BLOB_ALIGN);
    p->column_weights = mica_load_blob(r, MICA_RESIZE_LINEAR_S8_BLOB_COLUMN_WEIGHTS, column_weights, MICA_BLOB_ALIGN);
    if (mica_load_ok(r) && mica_load_checked(r, mica_resize_linear_s8_check(p, &r->what))) {
        mica_load_checked(r, mica_resize_linear_s8_check_constants(p, &r->what));
    }
}
#endif

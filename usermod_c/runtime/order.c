// mica: the section ORDER, and the steps of strips, as they are loaded.
#include <string.h>

#include "model.h"
#ifndef MICA_WITHOUT_STRIPS

// Kernels of which rows can be made alone: by a window over rows, or each from the same row. `params` are of a window.
static bool by_window(uint32_t kernel) {
    return kernel == MICA_KERNEL_CONV2D_S8 || kernel == MICA_KERNEL_DEPTHWISE_CONV2D_S8
           || kernel == MICA_KERNEL_MAX_POOL2D_S8 || kernel == MICA_KERNEL_AVERAGE_POOL2D_S8;
}

static mica_status_t begin_strips(const mica_model_t *m, mica_error_t *err) {
    const mica_file_t *f = &m->file;
    const uint32_t calls = mica_count(f, MICA_KIND_ORDER);
    uint32_t behind = 0;  // the last strip
    for (uint32_t c = 0; c < calls; ++c) {
        const uint8_t *r = mica_order_record(m, c);
        uint32_t head = mica_u16(r + MICA_ORDER_ROWS), steps = mica_u16(r + MICA_ORDER_DROP);
        if (mica_u16(r + MICA_ORDER_STEP) != MICA_NEW_STRIP) {
            if (c == 0) {
                return mica_fail(err, MICA_ERR_STEP, "ORDER does not begin with a strip", mica_at(f, r), 0, 0);
            }
            continue;
        }
        if (head < behind || steps == 0 || head + steps > m->info.n_steps) {
            return mica_fail(err, MICA_ERR_STEP, "the steps of a strip", mica_at(f, r), head, m->info.n_steps);
        }
        if (c == 0) {
            m->order->first_head = head;
        }
        behind = head + steps;
        m->order->steps[head].call = c + 1;
        m->order->steps[head].steps = (uint16_t)steps;
        for (uint32_t i = head; i < behind; ++i) {
            m->order->steps[i].strip = true;
        }
    }
    return MICA_OK;
}

mica_status_t mica_load_order(mica_model_t *m, mica_error_t *err) {
    bool has = m->file.s[MICA_KIND_ORDER].offset != 0;
    if (has != ((mica_u32(m->file.base + MICA_HEADER_FEATURES) & MICA_FEATURE_STRIPS) != 0)) {
        return mica_fail(err, MICA_ERR_FEATURE, "a section ORDER and the feature STRIPS go together",
            MICA_HEADER_FEATURES, has, !has);
    }
    if (!has) {
        return MICA_OK;
    }
    m->order = (mica_order_t *)(m->steps + m->info.n_steps + 1);
    *m->order = (mica_order_t) {
        .tensors = (mica_rows_t *)(m->order + 1), .head = UINT32_MAX, .first_head = UINT32_MAX, .fed = MICA_NO_TENSOR,
    };
    m->order->steps = (mica_strip_step_t *)(m->order->tensors + m->info.n_tensors);
    memset(m->order->tensors, 0, m->info.n_tensors * sizeof(mica_rows_t));
    memset(m->order->steps, 0, m->info.n_steps * sizeof(mica_strip_step_t));
    for (uint32_t i = 0; i < m->info.n_tensors; ++i) {
        mica_rows_t *t = &m->order->tensors[i];
        mica_tensor_t about;
        if (mica_read_tensor(m, i, &about, err) != MICA_OK) {
            return err->status;
        }
        t->image = about.rank == 4 && about.dims[0] == 1;
        t->data = about.data;
        t->rows = (uint16_t)(t->image ? about.dims[1] : 1);
        t->row_bytes = about.bytes / t->rows;
        t->some = about.space == MICA_SPACE_ROWS;
    }
    for (uint32_t i = 0; i < m->info.n_inputs; ++i) {
        const uint16_t id = mica_input_id(m, i);
        m->order->fed = m->order->tensors[id].some ? id : m->order->fed;
    }
    return begin_strips(m, err);
}

bool mica_has_strips(const mica_model_t *m) {
    return m->order != NULL;
}

bool mica_in_strip(const mica_model_t *m, uint32_t i) {
    return m->order != NULL && m->order->steps[i].strip;
}

mica_status_t mica_load_strip_step(mica_step_record_t *r, uint32_t i) {
    const mica_model_t *m = r->m;
    const uint8_t *params = r->record + MICA_STEP_PARAMS;
    mica_strip_step_t *s = &m->order->steps[i];
    s->kernel = (uint8_t)mica_u16(r->record + MICA_STEP_KERNEL);
    s->n_inputs = (uint8_t)r->n_inputs;
    s->y = (uint16_t)mica_u16(r->record + MICA_STEP_OUTPUTS);
    const mica_rows_t *y = &m->order->tensors[s->y];
    bool sound = y->image && (r->y.space == MICA_SPACE_ARENA || r->y.space == MICA_SPACE_ROWS);
    for (uint32_t k = 0; k < r->n_inputs; ++k) {
        s->x[k] = (uint16_t)mica_u16(r->record + MICA_STEP_INPUTS + 2 * k);
        const mica_rows_t *x = &m->order->tensors[s->x[k]];
        // A lower rank without a dimension of rows, or the rows themselves, or one row for all.
        bool one = x->image ? x->rows == 1 : r->x[k].rank < 3 || (r->x[k].rank == 3 && r->x[k].dims[0] == 1);
        sound = sound && (by_window(s->kernel) ? x->image : mica_rows_move(x, y) || (one && !x->some));
    }
    if (by_window(s->kernel)) {
        int32_t v[8];
        for (uint32_t k = 0; k < 8; ++k) {
            v[k] = (int32_t)mica_u32(params + 4 * k);
            sound = sound && v[k] >= (k < 6 ? 1 : 0) && v[k] <= MICA_MAX_DIM;
        }
        if (sound) {  // kernel_h, stride_h, dilation_h, pad_top
            s->reach = (uint32_t)(v[0] - 1) * (uint32_t)v[4] + 1;
            s->stride = (uint16_t)v[2];
            s->pad = (uint16_t)v[6];
        }
    } else {
        sound = sound && mica_by_row(s->kernel);
        if (s->kernel == MICA_KERNEL_CONCAT_S8) {
            sound = sound && mica_u32(params + 4 * MICA_CONCAT_S8_PARAM_AXIS) == 3;
            for (uint32_t k = 0; k < r->n_inputs; ++k) {
                sound = sound && mica_rows_move(&m->order->tensors[s->x[k]], y);
            }
        }
    }
    return sound ? MICA_OK
        : mica_record_fail(r, MICA_ERR_STEP, "this step cannot be part of a strip", MICA_STEP_KERNEL, s->kernel, 0);
}
#endif

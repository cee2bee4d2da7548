#include "op.h"

#ifndef MICA_WITHOUT_MAX_POOL2D_S8
MICA_LOAD_WINDOW(max_pool2d, MAX_POOL2D) {
    MICA_LOAD_ONE(r, p);
    mica_load_window(r, &p->win);
    mica_load_act(r, MICA_MAX_POOL2D_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_load_same_scale(r);
    MICA_LOAD_END(r, mica_max_pool2d_s8_check(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8
MICA_LOAD_WINDOW(average_pool2d, AVERAGE_POOL2D) {
    MICA_LOAD_ONE(r, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_window(r, &p->win);
    p->pad_bottom = (uint16_t)mica_load_param(r, MICA_AVERAGE_POOL2D_S8_PARAM_PAD_BOTTOM, 0, MICA_MAX_DIM);
    p->pad_right = (uint16_t)mica_load_param(r, MICA_AVERAGE_POOL2D_S8_PARAM_PAD_RIGHT, 0, MICA_MAX_DIM);
    p->count_include_pad = (uint8_t)mica_load_param(r, MICA_AVERAGE_POOL2D_S8_PARAM_COUNT_INCLUDE_PAD, 0, 1);
    mica_load_act(r, MICA_AVERAGE_POOL2D_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    p->entries = mica_load_blob_bytes(r, MICA_AVERAGE_POOL2D_S8_BLOB_SHIFT);
    if (mica_load_ok(r) && mica_load_checked(r, mica_average_pool2d_s8_check(p, &r->what))) {
        p->mult = mica_load_blob(r, MICA_AVERAGE_POOL2D_S8_BLOB_MULT, (size_t)p->entries * 4, MICA_BLOB_ALIGN);
        p->shift = mica_load_blob(r, MICA_AVERAGE_POOL2D_S8_BLOB_SHIFT, p->entries, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_average_pool2d_s8_check_constants(p, &r->what));
}

static uint32_t run_channels(MICA_RUN_ARGS) {
    mica_average_pool2d_s8_t p = s->p.average_pool2d;
    const uint32_t groups = p.win.out_w;
    end = end < groups ? end : groups;
    if (begin < end) {
        p.x += (size_t)p.win.in_c * begin;
        p.y += (size_t)p.win.in_c * begin;
        p.win.out_w = (uint16_t)(end - begin);
        MICA_AVERAGE_POOL2D_S8(&p, 0, 1, scratch, scratch_bytes);
    }
    return groups;
}

uint32_t mica_average_pool2d_by_channels(const mica_step_t *s, mica_step_t *to) {
    const mica_window_t *w = &s->p.average_pool2d.win;
    const uint32_t taps = (uint32_t)w->in_h * w->in_w;
    if (s->run != run_average_pool2d || w->out_h != 1 || w->out_w != 1 || w->in_h != w->kernel_h
        || w->in_w != w->kernel_w || w->pad_top || w->pad_left || w->in_c % 4 || taps > UINT16_MAX) {
        return 0;
    }
    *to = *s;
    to->run = run_channels;
    mica_window_t *columns = &to->p.average_pool2d.win;
    columns->in_h = columns->kernel_h = (uint16_t)taps;
    columns->in_w = columns->out_w = w->in_c / 4;
    columns->in_c = columns->out_c = 4;
    columns->kernel_w = columns->stride_h = columns->stride_w = 1;
    return columns->out_w;
}
#endif

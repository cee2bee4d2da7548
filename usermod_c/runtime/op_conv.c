#include "op.h"

#ifndef MICA_WITHOUT_CONV2D_S8
MICA_LOAD_WINDOW(conv2d, CONV2D) {
    MICA_LOAD_ONE(r, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    mica_load_window(r, &p->win);
    p->groups = (uint16_t)mica_load_param(r, MICA_CONV2D_S8_PARAM_GROUPS, 1, MICA_MAX_DIM);
    mica_load_act(r, MICA_CONV2D_S8_PARAM_ACT_MIN, &p->ch.act_min, &p->ch.act_max);
    p->ch.layout = mica_load_layout(r, MICA_CONV2D_S8_LAYOUTS);
    if (mica_load_ok(r) && mica_load_checked(r, mica_conv2d_s8_check(p, &r->what))) {
        mica_load_channels(r, &p->ch, mica_conv2d_s8_weights_bytes(p), mica_conv2d_s8_channels(p));
    }
    MICA_LOAD_END(r, mica_conv2d_s8_check_constants(p, &r->what));
}

uint32_t mica_conv2d_by_pixels(const mica_step_t *s, mica_step_t *to) {
    const mica_window_t *w = &s->p.conv2d.win;
    if (s->run != run_conv2d || w->out_h == 1 || w->kernel_h != 1 || w->kernel_w != 1 || w->stride_h != 1
        || w->stride_w != 1 || w->pad_top || w->pad_left || w->in_h != w->out_h || w->in_w != w->out_w
        || (uint32_t)w->in_h * w->in_w > UINT16_MAX) {
        return 0;
    }
    *to = *s;
    to->p.conv2d.win.in_w = to->p.conv2d.win.out_w = (uint16_t)(w->in_h * w->in_w);
    to->p.conv2d.win.in_h = to->p.conv2d.win.out_h = 1;
    return w->out_w;
}
#endif

#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8
MICA_LOAD_WINDOW(depthwise_conv2d, DEPTHWISE_CONV2D) {
    MICA_LOAD_ONE(r, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    mica_load_window(r, &p->win);
    mica_load_act(r, MICA_DEPTHWISE_CONV2D_S8_PARAM_ACT_MIN, &p->ch.act_min, &p->ch.act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_depthwise_conv2d_s8_check(p, &r->what))) {
        mica_load_channels(r, &p->ch, mica_depthwise_conv2d_s8_weights_bytes(p), mica_depthwise_conv2d_s8_channels(p));
    }
    MICA_LOAD_END(r, mica_depthwise_conv2d_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_CONV_TRANSPOSE2D_S8
MICA_LOAD_ROWS(conv_transpose2d, CONV_TRANSPOSE2D) {
    MICA_LOAD_ONE(r, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    mica_load_window(r, &p->win);
    p->groups = (uint16_t)mica_load_param(r, MICA_CONV_TRANSPOSE2D_S8_PARAM_GROUPS, 1, MICA_MAX_DIM);
    mica_load_act(r, MICA_CONV_TRANSPOSE2D_S8_PARAM_ACT_MIN, &p->ch.act_min, &p->ch.act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_conv_transpose2d_s8_check(p, &r->what))) {
        mica_load_channels(r, &p->ch, mica_conv_transpose2d_s8_weights_bytes(p), mica_conv_transpose2d_s8_channels(p));
    }
    MICA_LOAD_END(r, mica_conv_transpose2d_s8_check_constants(p, &r->what));
}
#endif

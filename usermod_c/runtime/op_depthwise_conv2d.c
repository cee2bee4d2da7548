#include "op.h"
#ifndef MICA_WITHOUT_DEPTHWISE_CONV2D_S8

MICA_RUN_WINDOW(depthwise_conv2d, DEPTHWISE_CONV2D)

mica_status_t mica_load_depthwise_conv2d(mica_step_record_t *r, mica_step_t *s) {
    mica_depthwise_conv2d_s8_t *p = &s->p.depthwise_conv2d;
    MICA_LOAD_BEGIN(r, s, p);
    p->x_zero = (int8_t)r->x[0].zero_point;
    mica_load_window(r, &p->win);
    mica_load_act(r, MICA_DEPTHWISE_CONV2D_S8_PARAM_ACT_MIN, &p->ch.act_min, &p->ch.act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_depthwise_conv2d_s8_check(p, &r->what))) {
        mica_load_channels(r, &p->ch, mica_depthwise_conv2d_s8_weights_bytes(p), mica_depthwise_conv2d_s8_channels(p));
    }
    return MICA_LOAD_END(r, mica_depthwise_conv2d_s8_check_constants(p, &r->what));
}

#endif

#include "op.h"

#ifndef MICA_WITHOUT_PCEN_S8

_Static_assert((int)MICA_PCEN_S8_PARAM_PREEMPHASIS == (int)MICA_LOG_MEL_S8_PARAM_PREEMPHASIS,
    "mica_load_sound_params reads others");
_Static_assert((int)MICA_PCEN_S8_BLOB_GAINS == (int)MICA_LOG_MEL_S8_BLOB_GAINS, "mica_load_sound_tables reads others");

static void load_params(mica_step_record_t *r, mica_pcen_s8_t *p) {
    mica_load_sound_params(r, &p->sound);
    p->smooth = (uint32_t)mica_load_param(r, MICA_PCEN_S8_PARAM_SMOOTH, 1, MICA_PCEN_ONE);
    p->alpha = (uint32_t)mica_load_param(r, MICA_PCEN_S8_PARAM_ALPHA, 0, MICA_PCEN_ONE);
    p->eps = mica_load_param(r, MICA_PCEN_S8_PARAM_EPS, 0, INT32_MAX);
    p->eps_exponent = (int16_t)mica_load_param(r, MICA_PCEN_S8_PARAM_EPS_EXPONENT, -128, 127);
    p->start = mica_load_param(r, MICA_PCEN_S8_PARAM_START, 0, INT32_MAX);
    p->start_exponent = (int16_t)mica_load_param(r, MICA_PCEN_S8_PARAM_START_EXPONENT, -128, 127);
    p->origin = mica_load_param(r, MICA_PCEN_S8_PARAM_ORIGIN, -(1 << 24), 1 << 24);
    p->points = (uint16_t)mica_load_param(r, MICA_PCEN_S8_PARAM_POINTS, 2, MICA_MAX_DIM);
    p->places = (uint8_t)mica_load_param(r, MICA_PCEN_S8_PARAM_PLACES, 2, 8);
    p->sound.mult = MICA_MULT_MIN;  // what the sound's check asks for; nothing is requantised
}

MICA_LOAD_ROWS(pcen, PCEN) {
    mica_log_mel_s8_t *sound = &p->sound;
    *p = (mica_pcen_s8_t){0};
    sound->y = r->y.data;
    sound->x = r->x[0].data;
    sound->samples = (uint16_t)mica_load_sound(r, &r->x[0], 1);
    if (!mica_load_ok(r) || mica_load_sound(r, &r->y, 2) == 0) {
        return;
    }
    sound->frames = (uint16_t)mica_load_frames(r, &p->noise, &p->noise_zero);
    sound->out_n = (uint16_t)r->y.dims[r->y.rank - 1];
    sound->y_zero = (int8_t)r->y.zero_point;
    load_params(r, p);
    if (mica_load_ok(r) && mica_load_checked(r, mica_pcen_s8_check(p, &r->what))
        && mica_load_scratch(r, mica_pcen_s8_scratch_bytes(p))) {
        mica_load_sound_tables(r, sound);
        p->curve = mica_load_blob(r, MICA_PCEN_S8_BLOB_CURVE, (size_t)p->points * 2, MICA_BLOB_ALIGN);
    }
    if (mica_load_ok(r) && mica_load_checked(r, mica_pcen_s8_check_constants(p, &r->what))) {
        mica_pcen_s8_prepare(p);
    }
}
#endif

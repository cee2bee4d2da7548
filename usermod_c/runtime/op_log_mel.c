#include "op.h"
#if !defined(MICA_WITHOUT_LOG_MEL_S8) || !defined(MICA_WITHOUT_PCEN_S8)

void mica_load_sound_tables(mica_step_record_t *r, mica_log_mel_s8_t *p) {
    p->window = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_WINDOW, (size_t)p->frame * 2, MICA_BLOB_ALIGN);
    p->twiddles = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_TWIDDLES, ((size_t)p->fft + 2) * 2, MICA_BLOB_ALIGN);
    p->filters = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_FILTERS, (size_t)p->bands * 4, MICA_BLOB_ALIGN);
    p->gains = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_GAINS, (size_t)p->n_gains * 2, MICA_BLOB_ALIGN);
}

void mica_load_sound_params(mica_step_record_t *r, mica_log_mel_s8_t *p) {
    p->frame = (uint16_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_FRAME, 1, MICA_MAX_DIM);
    p->hop = (uint16_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_HOP, 1, MICA_MAX_DIM);
    p->fft = (uint16_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_FFT, 32, MICA_LOG_MEL_MOST_POINTS);
    p->bands = (uint16_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_BANDS, 1, MICA_MAX_DIM);
    p->n_gains = (uint32_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_GAINS, 0, MICA_MAX_BYTES / 2);
    p->flags = (uint8_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_FLAGS, 0, 127);
    p->preemphasis = (uint16_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_PREEMPHASIS, 0, 1 << 15);
}

#endif

#ifndef MICA_WITHOUT_LOG_MEL_S8

MICA_RUN_ROWS(log_mel, LOG_MEL)

static void load_constants(mica_step_record_t *r, mica_log_mel_s8_t *p) {
    mica_load_sound_tables(r, p);
    p->dct = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_DCT, mica_log_mel_s8_dct_bytes(p), MICA_BLOB_ALIGN);
    p->bias = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
}

mica_status_t mica_load_log_mel(mica_step_record_t *r, mica_step_t *s) {
    mica_log_mel_s8_t *p = &s->p.log_mel;
    MICA_LOAD_BEGIN(r, s, p);
    p->samples = (uint16_t)mica_load_sound(r, &r->x[0], 1);
    if (!mica_load_ok(r) || mica_load_sound(r, &r->y, 2) == 0) {
        return r->err->status;
    }
    p->frames = (uint16_t)r->y.dims[r->y.rank - 2];
    p->out_n = (uint16_t)r->y.dims[r->y.rank - 1];
    p->y_zero = (int8_t)r->y.zero_point;
    mica_load_sound_params(r, p);
    p->pad = (uint16_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_PAD, 0, MICA_MAX_DIM);
    p->floor = mica_load_param(r, MICA_LOG_MEL_S8_PARAM_FLOOR, 0, INT32_MAX);
    p->floor_exponent = (int8_t)mica_load_param(r, MICA_LOG_MEL_S8_PARAM_FLOOR_EXPONENT, -64, 63);
    mica_load_requant(r, MICA_LOG_MEL_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_LOG_MEL_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_log_mel_s8_check(p, &r->what))
        && mica_load_scratch(r, mica_log_mel_s8_scratch_bytes(p))) {
        load_constants(r, p);
    }
    if (mica_load_ok(r) && mica_load_checked(r, mica_log_mel_s8_check_constants(p, &r->what))) {
        mica_log_mel_s8_prepare(p);
    }
    return r->err->status;
}

#endif

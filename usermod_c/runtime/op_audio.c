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
static void log_mel_constants(mica_step_record_t *r, mica_log_mel_s8_t *p) {
    mica_load_sound_tables(r, p);
    p->dct = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_DCT, mica_log_mel_s8_dct_bytes(p), MICA_BLOB_ALIGN);
    p->bias = mica_load_blob(r, MICA_LOG_MEL_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
}

MICA_LOAD_ROWS(log_mel, LOG_MEL) {
    MICA_LOAD_ONE(r, p);
    p->samples = (uint16_t)mica_load_sound(r, &r->x[0], 1);
    if (!mica_load_ok(r) || mica_load_sound(r, &r->y, 2) == 0) {
        return;
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
        log_mel_constants(r, p);
    }
    if (mica_load_ok(r) && mica_load_checked(r, mica_log_mel_s8_check_constants(p, &r->what))) {
        mica_log_mel_s8_prepare(p);
    }
}
#endif

#ifndef MICA_WITHOUT_PCAN_S8
static void pcan_constants(mica_step_record_t *r, mica_pcan_s8_t *p) {
    p->window = mica_load_blob(r, MICA_PCAN_S8_BLOB_WINDOW, (size_t)p->frame * 2, MICA_BLOB_ALIGN);
    p->twiddles = mica_load_blob(r, MICA_PCAN_S8_BLOB_TWIDDLES, (size_t)p->fft * 3, MICA_BLOB_ALIGN);
    p->filters = mica_load_blob(r, MICA_PCAN_S8_BLOB_FILTERS, ((size_t)p->bands + 1) * 4, MICA_BLOB_ALIGN);
    p->gains = mica_load_blob(r, MICA_PCAN_S8_BLOB_GAINS, (size_t)p->n_gains * 4, MICA_BLOB_ALIGN);
    p->lut = mica_load_blob(r, MICA_PCAN_S8_BLOB_LUT, 125 * 2, MICA_BLOB_ALIGN);
    p->logs = mica_load_blob(r, MICA_PCAN_S8_BLOB_LOGS, 129 * 2, MICA_BLOB_ALIGN);
}

MICA_LOAD_ROWS(pcan, PCAN) {
    MICA_LOAD_ONE(r, p);
    p->samples = mica_load_sound(r, &r->x[0], 1);
    if (!mica_load_ok(r) || mica_load_sound(r, &r->y, 2) == 0) {
        return;
    }
    p->frames = mica_load_frames(r, &p->noise, &p->noise_zero);
    p->bands = (uint16_t)r->y.dims[r->y.rank - 1];
    p->y_zero = (int8_t)r->y.zero_point;
    p->frame = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_FRAME, 1, MICA_MAX_DIM);
    p->hop = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_HOP, 1, MICA_MAX_DIM);
    p->fft = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_FFT, 32, MICA_PCAN_MOST_POINTS);
    const int32_t bands = mica_load_param(r, MICA_PCAN_S8_PARAM_BANDS, 1, MICA_MAX_DIM);
    if (!mica_load_require(r, bands == p->bands, MICA_ERR_SHAPE, "there are other columns than bands")) {
        return;
    }
    p->n_gains = (uint32_t)mica_load_param(r, MICA_PCAN_S8_PARAM_GAINS, 0, MICA_MAX_BYTES / 4);
    p->even = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_EVEN, 0, 1 << 14);
    p->odd = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_ODD, 0, 1 << 14);
    p->places = (uint8_t)mica_load_param(r, MICA_PCAN_S8_PARAM_PLACES, 0, 16);
    p->least = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_LEAST, 0, 1 << 14);
    p->snr_shift = (uint8_t)mica_load_param(r, MICA_PCAN_S8_PARAM_SNR_SHIFT, 0, 31);
    p->correction = (int8_t)mica_load_param(r, MICA_PCAN_S8_PARAM_CORRECTION, -31, 31);
    p->log_places = (uint8_t)mica_load_param(r, MICA_PCAN_S8_PARAM_LOG_PLACES, 0, 10);
    mica_load_requant(r, MICA_PCAN_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_PCAN_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_pcan_s8_check(p, &r->what))
        && mica_load_scratch(r, mica_pcan_s8_scratch_bytes(p))) {
        pcan_constants(r, p);
    }
    MICA_LOAD_END(r, mica_pcan_s8_check_constants(p, &r->what));
}
#endif

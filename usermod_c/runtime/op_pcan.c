#include "op.h"
#ifndef MICA_WITHOUT_PCAN_S8

MICA_RUN_ROWS(pcan, PCAN)

static void load_constants(mica_step_record_t *r, mica_pcan_s8_t *p) {
    p->window = mica_load_blob(r, MICA_PCAN_S8_BLOB_WINDOW, (size_t)p->frame * 2, MICA_BLOB_ALIGN);
    p->twiddles = mica_load_blob(r, MICA_PCAN_S8_BLOB_TWIDDLES, (size_t)p->fft * 3, MICA_BLOB_ALIGN);
    p->filters = mica_load_blob(r, MICA_PCAN_S8_BLOB_FILTERS, ((size_t)p->bands + 1) * 4, MICA_BLOB_ALIGN);
    p->gains = mica_load_blob(r, MICA_PCAN_S8_BLOB_GAINS, (size_t)p->n_gains * 4, MICA_BLOB_ALIGN);
    p->lut = mica_load_blob(r, MICA_PCAN_S8_BLOB_LUT, 125 * 2, MICA_BLOB_ALIGN);
    p->logs = mica_load_blob(r, MICA_PCAN_S8_BLOB_LOGS, 129 * 2, MICA_BLOB_ALIGN);
}

mica_status_t mica_load_pcan(mica_step_record_t *r, mica_step_t *s) {
    mica_pcan_s8_t *p = &s->p.pcan;
    MICA_LOAD_BEGIN(r, s, p);
    p->samples = mica_load_sound(r, &r->x[0], 1);
    if (!mica_load_ok(r) || mica_load_sound(r, &r->y, 2) == 0) {
        return r->err->status;
    }
    p->frames = mica_load_frames(r, &p->noise, &p->noise_zero);
    p->bands = (uint16_t)r->y.dims[r->y.rank - 1];
    p->y_zero = (int8_t)r->y.zero_point;
    p->frame = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_FRAME, 1, MICA_MAX_DIM);
    p->hop = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_HOP, 1, MICA_MAX_DIM);
    p->fft = (uint16_t)mica_load_param(r, MICA_PCAN_S8_PARAM_FFT, 32, MICA_PCAN_MOST_POINTS);
    const int32_t bands = mica_load_param(r, MICA_PCAN_S8_PARAM_BANDS, 1, MICA_MAX_DIM);
    if (!mica_load_require(r, bands == p->bands, MICA_ERR_SHAPE, "there are other columns than bands")) {
        return r->err->status;
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
        load_constants(r, p);
    }
    return MICA_LOAD_END(r, mica_pcan_s8_check_constants(p, &r->what));
}

#endif

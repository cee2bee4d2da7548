#include "op.h"

#ifndef MICA_WITHOUT_RECURRENT_S8

#define PARAM(name, low, high) mica_load_param(r, MICA_RECURRENT_S8_PARAM_##name, low, high)

static void load_numbers(mica_step_record_t *r, mica_recurrent_s8_t *p) {
    p->cell = (uint8_t)PARAM(CELL, 0, MICA_CELL_GRU_RESET_AFTER);
    p->reverse = (uint8_t)PARAM(REVERSE, 0, 1);
    int32_t result = PARAM(RESULT, 0, 2);
    p->cell_result = result == 1;
    p->carried = result == 2;
    p->coupled = (uint8_t)PARAM(COUPLED, 0, 1);
    p->peepholes = (uint8_t)PARAM(PEEPHOLES, 0, 1);
    p->cell_shift = (uint8_t)PARAM(CELL_SHIFT, 0, 15);
    p->output_shift = (uint8_t)PARAM(OUTPUT_SHIFT, 0, 13);
    p->h_zero = (int8_t)PARAM(HIDDEN_ZERO, -128, 127);
    p->in_mult = PARAM(IN_MULT, MICA_MULT_MIN, MICA_MULT_MAX);
    p->in_shift = (int8_t)PARAM(IN_SHIFT, MICA_SHIFT_MIN, MICA_SHIFT_MAX);
    p->out_mult = PARAM(OUT_MULT, MICA_MULT_MIN, MICA_MULT_MAX);
    p->out_shift = (int8_t)PARAM(OUT_SHIFT, MICA_SHIFT_MIN, MICA_SHIFT_MAX);
}

// Shapes, and the zero points that have to be equal.
static bool load_tensors(mica_step_record_t *r, mica_recurrent_s8_t *p) {
    const mica_tensor_t *x = &r->x[0], *y = &r->y;
    uint32_t ahead = mica_recurrent_s8_ahead(p), rows = y->dims[0] - ahead;
    bool sound = x->rank == 3 && y->rank == 3 && y->dims[0] > ahead && y->dims[1] == x->dims[1]
        && (rows == 1 || rows == x->dims[0]);
    for (uint32_t i = 1; sound && i < r->n_inputs; ++i) {
        const mica_tensor_t *t = &r->x[i];
        sound = t->rank == 3 && t->dims[0] == 1 && t->dims[1] == x->dims[1] && t->dims[2] == y->dims[2] << p->carried;
    }
    if (!mica_load_require(r, sound, MICA_ERR_SHAPE,
        "expected [T, B, I], initial states [1, B, H] and an output [T or 1, B, H], or carried ones")) {
        return false;
    }
    bool zeros = p->carried || ((p->cell_result || p->h_zero == y->zero_point)
        && (r->n_inputs < 2 || p->h_zero == r->x[1].zero_point));
    p->x = x->data;
    p->y = y->data;
    p->h0 = r->x[1].data;
    p->c0 = r->x[2].data;
    p->initial = (uint8_t)(r->n_inputs - 1);
    p->c0_zero = (int8_t)r->x[2].zero_point;
    p->y_zero = (int8_t)y->zero_point;
    p->time = (uint16_t)x->dims[0];
    p->batch = (uint16_t)x->dims[1];
    p->in_n = (uint16_t)x->dims[2];
    p->units = (uint16_t)y->dims[2];
    p->every = rows > 1;
    return mica_load_require(r, zeros, MICA_ERR_RANGE, "hidden_zero is not the zero point of the hidden states");
}

MICA_LOAD_ROWS(recurrent, RECURRENT) {
    load_numbers(r, p);
    if (mica_load_ok(r) && load_tensors(r, p) && mica_load_checked(r, mica_recurrent_s8_check(p, &r->what))) {
        p->weights = mica_load_blob(r, MICA_RECURRENT_S8_BLOB_MATRIX, mica_recurrent_s8_weights_bytes(p),
            MICA_BLOB_ALIGN);
        p->terms = mica_load_blob(r, MICA_RECURRENT_S8_BLOB_TERMS, (size_t)mica_recurrent_s8_terms(p) * 4,
            MICA_BLOB_ALIGN);
        p->shifts = mica_load_blob(r, MICA_RECURRENT_S8_BLOB_SHIFTS, mica_recurrent_s8_channels(p), MICA_BLOB_ALIGN);
        size_t gate = p->cell == MICA_CELL_RNN ? 0 : 2 * MICA_TABLE_S16,
            output = p->cell == MICA_CELL_LSTM ? 2 * MICA_TABLE_S16 : 0;
        p->gate = mica_load_blob(r, MICA_RECURRENT_S8_BLOB_GATE, gate, MICA_BLOB_ALIGN);
        p->candidate = mica_load_blob(r, MICA_RECURRENT_S8_BLOB_CANDIDATE, 2 * MICA_TABLE_S16, MICA_BLOB_ALIGN);
        p->output = mica_load_blob(r, MICA_RECURRENT_S8_BLOB_OUTPUT, output, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_recurrent_s8_check_constants(p, &r->what));
}
#endif

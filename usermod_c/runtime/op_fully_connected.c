#include "op.h"
#include "shape.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#define OUTPUTS (4) // what counts as a row where there is one row of them: kernels compute so many at a time

static uint32_t run(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) {
    const mica_fully_connected_s8_t *p = &s->p.fully_connected;
    const uint32_t rows = p->rows > 1 ? p->rows : (p->out_n + OUTPUTS - 1u) / OUTPUTS;
    end = end < rows ? end : rows;
    if (begin < end) {
        if (p->rows > 1) {
            MICA_FULLY_CONNECTED_S8(p, begin, end, scratch, scratch_bytes);
        } else if (end - begin == rows) {
            MICA_FULLY_CONNECTED_S8(p, 0, 1, scratch, scratch_bytes);
        } else {
            const uint32_t first = begin * OUTPUTS;
            const uint32_t last = end < rows ? end * OUTPUTS : p->out_n;
            mica_fully_connected_s8_t piece = *p;
            piece.y += first;
            piece.ch.weights += (size_t)first * mica_row_bytes(p->ch.layout, p->in_k);
            piece.ch.bias += first;
            piece.ch.mult += first;
            piece.ch.shift += first;
            piece.out_n = (uint16_t)(last - first);
            MICA_FULLY_CONNECTED_S8(&piece, 0, 1, scratch, scratch_bytes);
        }
    }
    return rows;
}

mica_status_t mica_load_fully_connected(mica_step_record_t *r, mica_step_t *s) {
    mica_fully_connected_s8_t *p = &s->p.fully_connected;
    MICA_LOAD_BEGIN(r, s, p);
    if (!mica_load_rows(r, &p->rows, &p->in_k, &p->out_n)) {
        return r->err->status;
    }
    mica_load_act(r, MICA_FULLY_CONNECTED_S8_PARAM_ACT_MIN, &p->ch.act_min, &p->ch.act_max);
    p->ch.layout = mica_load_layout(r, MICA_FULLY_CONNECTED_S8_LAYOUTS);
    if (mica_load_checked(r, mica_fully_connected_s8_check(p, &r->what))) {
        mica_load_channels(r, &p->ch, mica_fully_connected_s8_weights_bytes(p), mica_fully_connected_s8_channels(p));
    }
    return MICA_LOAD_END(r, mica_fully_connected_s8_check_constants(p, &r->what));
}

#endif

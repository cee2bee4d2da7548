#include "op.h"
#include "shape.h"

#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8
#define OWN (64) // bytes of scratch of a kernel beside a row of x as pairs: SCRATCH_FIXED of mica/kernels/base.py
#define BLOCK (1024) // bytes of weights, about: nobody computes while the first block comes, and each has its costs
#define OUTPUTS (4) // what counts as a row where there is one row of them: kernels compute so many at a time

// Outputs [first, last) of a single row, whose weights lie at `weights`.
static void run_outputs(const mica_fully_connected_s8_t *p, const int8_t *weights, uint32_t first, uint32_t last,
    void *scratch, size_t scratch_bytes) {
    mica_fully_connected_s8_t piece = *p;
    piece.y += first;
    piece.ch.weights = weights;
    piece.ch.bias += first;
    piece.ch.mult += first;
    piece.ch.shift += first;
    piece.out_n = (uint16_t)(last - first);
    MICA_FULLY_CONNECTED_S8(&piece, 0, 1, scratch, scratch_bytes);
}

// A single row whose weights are brought into two blocks of scratch: into one while the other is used. False where
// there is no room or nobody brings them.
static bool run_fetched(const mica_fully_connected_s8_t *p, uint8_t *scratch, size_t scratch_bytes) {
    const size_t row = mica_row_bytes(p->ch.layout, p->in_k),
        own = (2 * row + OWN + MICA_ALIGN - 1) & ~(size_t)(MICA_ALIGN - 1);
    const mica_fetch_t *fetch = p->fetch;
    if (fetch == NULL || p->ch.layout != MICA_LAYOUT_OFFSET_ROWS || scratch_bytes < own + 2 * OUTPUTS * row) {
        return false;
    }
    const uint32_t room = (uint32_t)((scratch_bytes - own) / 2 / row) & ~(OUTPUTS - 1u), n = p->out_n;
    const uint32_t few = ((uint32_t)(BLOCK / row) + OUTPUTS) & ~(OUTPUTS - 1u), most = few < room ? few : room;
    const int8_t *w = p->ch.weights;
    if (most >= n || !fetch->take(w, n * row)) {  // a layer of one block would wait for it alone
        return false;
    }
    uint8_t *block = scratch + own, *other = block + most * row;
    fetch->begin(block, w, most * row);
    for (uint32_t first = 0; first < n; first += most) {
        const uint32_t last = n - first < most ? n : first + most, after = n - last < most ? n - last : most;
        fetch->wait();
        if (after > 0) {
            fetch->begin(other, w + last * row, after * row);
        }
        run_outputs(p, (const int8_t *)block, first, last, scratch, own);
        uint8_t *done = block;
        block = other;
        other = done;
    }
    fetch->give();
    return true;
}

static uint32_t run_fully_connected(MICA_RUN_ARGS) {
    const mica_fully_connected_s8_t *p = &s->p.fully_connected;
    const uint32_t rows = p->rows > 1 ? p->rows : (p->out_n + OUTPUTS - 1u) / OUTPUTS;
    end = end < rows ? end : rows;
    if (begin < end) {
        if (p->rows > 1) {
            MICA_FULLY_CONNECTED_S8(p, begin, end, scratch, scratch_bytes);
        } else if (end - begin < rows) {
            const uint32_t first = begin * OUTPUTS;
            const size_t at = (size_t)first * mica_row_bytes(p->ch.layout, p->in_k);
            run_outputs(p, p->ch.weights + at, first, end < rows ? end * OUTPUTS : p->out_n, scratch, scratch_bytes);
        } else if (!run_fetched(p, scratch, scratch_bytes)) {
            MICA_FULLY_CONNECTED_S8(p, 0, 1, scratch, scratch_bytes);
        }
    }
    return rows;
}

bool mica_fully_connected_alone(const mica_step_t *s) {
    const mica_fully_connected_s8_t *p = &s->p.fully_connected;
    return s->run == run_fully_connected && p->rows == 1 && p->ch.layout == MICA_LAYOUT_OFFSET_ROWS && p->fetch != NULL
        && (uintptr_t)p->ch.weights - (uintptr_t)p->fetch->alone < p->fetch->alone_bytes;
}

MICA_LOADER(fully_connected, fully_connected_s8) {
    MICA_LOAD_ONE(r, p);
    p->fetch = NULL;
    if (!mica_load_rows(r, &p->rows, &p->in_k, &p->out_n)) {
        return;
    }
    mica_load_act(r, MICA_FULLY_CONNECTED_S8_PARAM_ACT_MIN, &p->ch.act_min, &p->ch.act_max);
    p->ch.layout = mica_load_layout(r, MICA_FULLY_CONNECTED_S8_LAYOUTS);
    if (mica_load_checked(r, mica_fully_connected_s8_check(p, &r->what))) {
        mica_load_channels(r, &p->ch, mica_fully_connected_s8_weights_bytes(p), mica_fully_connected_s8_channels(p));
    }
    MICA_LOAD_END(r, mica_fully_connected_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_MATMUL_S8
MICA_LOAD_ROWS(matmul, MATMUL) {
    const mica_tensor_t *a = &r->x[0], *b = &r->x[1], *y = &r->y;
    MICA_LOAD_TWO(r, p);
    MICA_LOAD_ZEROS(r, p);
    p->transpose_b = (uint8_t)mica_load_param(r, MICA_MATMUL_S8_PARAM_TRANSPOSE_B, 0, 1);
    mica_load_requant(r, MICA_MATMUL_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_MATMUL_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    mica_status_t shapes = mica_matmul_s8_shapes(p, a->dims, a->rank, b->dims, b->rank, y->dims, y->rank, &r->what);
    mica_load_checked(r, shapes);
    MICA_LOAD_END(r, mica_matmul_s8_check(p, &r->what));
}
#endif

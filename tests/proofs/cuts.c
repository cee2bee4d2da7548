// What CBMC proves of steps that are cut otherwise than into columns: outputs of a single row, and channels of a mean.
#include "asked.h"
#include "op_dense.c"
#include "op_pool.c"

// --- fully_connected: a piece has the constants of its outputs, and together they are all of them

static const mica_fully_connected_s8_t *matrix;
static uint32_t first, end_of;  // outputs of the last piece

void mica_fully_connected_s8_ref(const mica_fully_connected_s8_t *p, uint32_t begin, uint32_t end, void *scratch,
    size_t scratch_bytes) {
    (void)scratch, (void)scratch_bytes;
    __CPROVER_assert(begin < end && end <= p->rows && p->rows == matrix->rows, "rows");
    first = p == matrix ? 0 : (uint32_t)(p->y - matrix->y);
    end_of = first + p->out_n;
    __CPROVER_assert(first + p->out_n <= matrix->out_n && p->out_n >= 1, "outputs");
    __CPROVER_assert(p == matrix || (p->rows == 1 && begin == 0), "a piece of one row");
    __CPROVER_assert(p->ch.bias == matrix->ch.bias + first && p->ch.mult == matrix->ch.mult + first
        && p->ch.shift == matrix->ch.shift + first, "constants");
    __CPROVER_assert(first == 0 ? p->ch.weights == matrix->ch.weights
        : p->ch.weights == matrix->ch.weights + times(first, mica_row_bytes(p->ch.layout, p->in_k)), "weights");
    __CPROVER_assert(p->x == matrix->x && p->in_k == matrix->in_k && p->ch.layout == matrix->ch.layout
        && p->ch.table == matrix->ch.table, "the rest");
}

// Weights that are brought: all outputs, or nothing happens.
static bool some_fetched(const mica_fully_connected_s8_t *p) {
    first = 0;
    end_of = p->out_n;
    return nondet_bool();
}

void prove_outputs(void) {
    mica_step_t s;
    mica_fully_connected_s8_t p;
    p.y = malloc(MICA_MAX_DIM);
    __CPROVER_assume(p.y != NULL && p.rows >= 1 && p.out_n >= 1 && p.in_k >= 1);
    s.p.fully_connected = p;
    matrix = &s.p.fully_connected;
    const uint32_t begin = nondet_u32(), end = nondet_u32();
    __CPROVER_assume(begin <= end);
    const uint32_t rows = run_fully_connected(&s, begin, end, NULL, 0);
    if (p.rows == 1 && begin < end && begin < rows) {
        __CPROVER_assert(first == begin * OUTPUTS, "the first output");
        __CPROVER_assert(end_of == (end < rows ? end * OUTPUTS : p.out_n), "the end of the outputs");
    }
}

// --- average_pool2d of a whole image: column i of a piece is four channels from 4 * i on, its rows are all pixels

static mica_average_pool2d_s8_t mean;
static uint32_t from, to_end;
static bool pooled;

void mica_average_pool2d_s8_ref(const mica_average_pool2d_s8_t *p, uint32_t begin, uint32_t end, void *scratch,
    size_t scratch_bytes) {
    (void)scratch, (void)scratch_bytes;
    const mica_window_t *w = &p->win;
    pooled = true;
    __CPROVER_assert(begin == 0 && end == 1 && w->out_h == 1 && w->pad_top == 0 && w->pad_left == 0, "one row");
    __CPROVER_assert(w->in_c == 4 && w->out_c == 4 && w->in_w * 4 == mean.win.in_c, "pixels lie in_c apart");
    __CPROVER_assert(w->kernel_h == w->in_h && w->in_h == times(mean.win.in_h, mean.win.in_w), "all pixels");
    __CPROVER_assert(w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1, "a window is a column");
    __CPROVER_assert(p->x == mean.x + 4 * (size_t)from && p->y == mean.y + 4 * (size_t)from, "where a piece begins");
    __CPROVER_assert(w->out_w == to_end - from && 4 * to_end <= mean.win.in_c, "its channels");
    __CPROVER_assert(p->mult == mean.mult && p->shift == mean.shift && p->entries == mean.entries
        && p->x_zero == mean.x_zero && p->y_zero == mean.y_zero && p->act_min == mean.act_min
        && p->act_max == mean.act_max, "the rest");
}

void prove_channels_of_mean(void) {
    mica_step_t s, to;
    mica_average_pool2d_s8_t p;
    p.x = malloc(MICA_MAX_DIM);
    p.y = malloc(MICA_MAX_DIM);
    __CPROVER_assume(p.x != NULL && p.y != NULL && p.win.in_c >= 1 && p.win.in_c == p.win.out_c);
    s.p.average_pool2d = mean = p;
    s.run = run_average_pool2d;
    from = nondet_u32();
    to_end = nondet_u32();
    pooled = false;
    const uint32_t rows = mica_average_pool2d_by_channels(&s, &to);
    __CPROVER_assume(from < to_end && to_end <= rows);
    __CPROVER_assert(rows * 4 == p.win.in_c, "all channels");
    __CPROVER_assert(to.run(&to, from, to_end, NULL, 0) == rows && pooled, "it runs");
}

// mica: strips: the calls of the section ORDER (order.c), checked and turned into steps over pictures of a few rows.
#include <string.h>
#include "model.h"
#ifndef MICA_WITHOUT_STRIPS
// What a call reads and writes. Of an input that has no rows of its own, all of it.
typedef struct {
    uint8_t *x[MICA_MAX_INPUTS], *y;
    uint32_t in, out;     // rows of the first input, and of the output
    uint32_t first;       // oldest row of the output that is kept then
    uint32_t pad;         // rows that the first window reaches above the first of them
} cut_t;

// May the output lie exactly on an input? Not a concat's, which is no elementwise kernel.
static bool in_place(uint32_t kernel) {
    return mica_by_row(kernel) && kernel != MICA_KERNEL_CONCAT_S8;
}

// ---- calls

// A strip begins: nothing of what it makes is there; of the fed input nothing when the first one does.
static void forget(const mica_model_t *m, uint32_t head) {
    if (head == m->order->first_head && m->order->fed != MICA_NO_TENSOR) {
        mica_rows_t *x = &m->order->tensors[m->order->fed];
        x->first = x->have = x->made = 0;
    }
    const mica_strip_step_t *s = &m->order->steps[head];
    for (uint32_t i = 0; i < s->steps; ++i) {
        mica_rows_t *y = &m->order->tensors[s[i].y];
        y->first = y->have = y->made = 0;
    }
}

static bool meet(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < a_bytes : x - y < b_bytes;
}

// Where the rows of y go that a call makes: null, or what is wrong with that.
static const char *place(const mica_model_t *m, const mica_rows_t *y, uint32_t rows, uint32_t drop, cut_t *cut) {
    if (rows == 0 || rows > (uint32_t)y->rows - y->have) {
        return "a call makes no rows, or more than there are";
    }
    if (drop > (uint32_t)y->have - y->first || (drop != 0 && !y->some)) {
        return "a call drops rows that are not there";
    }
    const uint32_t begin = y->have, end = begin + rows, first = y->first + drop;
    if (y->some && (uint64_t)(end - first) * y->row_bytes > (uint64_t)(m->arena + m->info.arena_bytes - y->data)) {
        return "a call writes behind the end of the arena";
    }
    cut->y = y->data + (size_t)(begin - first) * y->row_bytes;
    cut->out = rows;
    cut->first = first;
    return NULL;
}

// The rows that leave are gone, and those that are made count as there.
static void keep(mica_rows_t *y, const cut_t *cut) {
    y->first = (uint16_t)cut->first;
    y->made = y->have;
    y->have = (uint16_t)(y->have + cut->out);
}

// Notes a call by which the caller delivers rows: null and where they go, or what is wrong with it. Moves no bytes.
static const char *take_fed(const mica_model_t *m, uint32_t rows, uint32_t drop, cut_t *cut) {
    if (m->order->fed == MICA_NO_TENSOR) {
        return "a call feeds rows, and no input is fed";
    }
    mica_rows_t *x = &m->order->tensors[m->order->fed];
    const char *wrong = place(m, x, rows, drop, cut);
    if (wrong == NULL) {
        keep(x, cut);
    }
    return wrong;
}

// The same of a call of step s: null and what it reads and writes.
static const char *take(const mica_model_t *m, const mica_strip_step_t *s, uint32_t rows, uint32_t drop, cut_t *cut) {
    mica_rows_t *tensors = m->order->tensors, *y = &tensors[s->y];
    const char *wrong = place(m, y, rows, drop, cut);
    if (wrong != NULL) {
        return wrong;
    }
    const uint32_t begin = y->have, end = begin + rows;
    for (uint32_t k = 0; k < s->n_inputs; ++k) {
        const mica_rows_t *x = &tensors[s->x[k]];
        int64_t a = mica_rows_move(x, y) ? begin : 0, b = mica_rows_move(x, y) ? end : x->rows;
        if (s->stride != 0) {
            a = (int64_t)begin * s->stride - s->pad;
            b = (int64_t)(end - 1) * s->stride - s->pad + s->reach;
        }
        const int64_t low = a > 0 ? a : 0, high = b < x->rows ? b : x->rows;
        if (low >= high || (x->some && (low < x->first || high > x->have))) {
            return "a call reads rows that are not there";
        }
        cut->x[k] = x->data + (size_t)(low - x->first) * x->row_bytes;
        if (k == 0) {
            cut->in = (uint32_t)(high - low);
            cut->pad = (uint32_t)(low - a);
        }
        const size_t x_bytes = (size_t)(high - low) * x->row_bytes, y_bytes = (size_t)rows * y->row_bytes;
        bool exactly = cut->x[k] == cut->y && x_bytes == y_bytes && in_place(s->kernel);
        if (meet(cut->x[k], x_bytes, cut->y, y_bytes) && !exactly) {
            return "a call reads bytes that it writes";
        }
    }
    keep(y, cut);
    return NULL;
}

mica_status_t mica_replay_order(const mica_model_t *m, mica_error_t *err) {
    const uint32_t calls = m->order == NULL ? 0 : mica_count(&m->file, MICA_KIND_ORDER);
    uint32_t head = 0, behind = 0;
    for (uint32_t c = 0; c <= calls; ++c) {
        const uint8_t *r = c < calls ? mica_order_record(m, c) : NULL;
        if (r == NULL || mica_u16(r + MICA_ORDER_STEP) == MICA_NEW_STRIP) {
            for (uint32_t i = head; i < behind; ++i) {
                const mica_rows_t *y = &m->order->tensors[m->order->steps[i].y];
                if (y->have != y->rows) {
                    err->step = (int32_t)i;
                    return mica_fail(err, MICA_ERR_STEP, "a strip does not make all rows of a step", 0, y->have,
                        y->rows);
                }
            }
            if (r == NULL) {
                break;
            }
            head = mica_u16(r + MICA_ORDER_ROWS);
            behind = head + mica_u16(r + MICA_ORDER_DROP);
            forget(m, head);
            continue;
        }
        const uint32_t step = mica_u16(r + MICA_ORDER_STEP);
        const uint32_t rows = mica_u16(r + MICA_ORDER_ROWS), drop = mica_u16(r + MICA_ORDER_DROP);
        cut_t cut;
        const char *wrong = step == MICA_FEED ? take_fed(m, rows, drop, &cut)
            : step < head || step >= behind ? "a call of a step of another strip"
            : take(m, &m->order->steps[step], rows, drop, &cut);
        if (wrong != NULL) {
            return mica_fail(err, MICA_ERR_STEP, wrong, mica_at(&m->file, r), step, 0);
        }
    }
    return MICA_OK;
}

// ---- running

static void cut_window(mica_window_t *w, const cut_t *cut) {
    w->in_h = (uint16_t)cut->in;
    w->out_h = (uint16_t)cut->out;
    w->pad_top = (uint16_t)cut->pad;
}

// The outermost dimension of a broadcast that is not 1 has all rows in it.
static void cut_shape(mica_broadcast_t *shape, const cut_t *cut, uint32_t rows) {
    shape->n[0] = shape->n[0] / rows * cut->out;
}

// Makes a copy of a step the step that the call is. What it was has been checked for `rows` rows, and holds for fewer.
static void cut_step(mica_step_t *s, uint32_t kernel, const cut_t *cut, const mica_rows_t *y) {
    const int8_t *x = (const int8_t *)cut->x[0], *b = (const int8_t *)cut->x[1];
    int8_t *to = (int8_t *)cut->y;
    switch (kernel) {
        #define CUT_WINDOW(NAME, name) \
    case MICA_KERNEL_##NAME: \
        s->p.name.x = x; \
        s->p.name.y = to; \
        cut_window(&s->p.name.win, cut); \
        break;
        CUT_WINDOW(CONV2D_S8, conv2d)
        CUT_WINDOW(DEPTHWISE_CONV2D_S8, depthwise_conv2d)
        CUT_WINDOW(MAX_POOL2D_S8, max_pool2d)
        CUT_WINDOW(AVERAGE_POOL2D_S8, average_pool2d)
        #undef CUT_WINDOW
        #define CUT_SHAPE(NAME, name) \
    case MICA_KERNEL_##NAME: \
        s->p.name.a = x; \
        s->p.name.b = b; \
        s->p.name.y = to; \
        cut_shape(&s->p.name.shape, cut, y->rows); \
        break;
        CUT_SHAPE(ADD_S8, add)
        CUT_SHAPE(MUL_S8, mul)
        CUT_SHAPE(MINMAX_S8, minmax)
        CUT_SHAPE(DIV_S8, div)
        #undef CUT_SHAPE
        case MICA_KERNEL_LUT_S8:
            s->p.lut.x = x;
            s->p.lut.y = to;
            s->p.lut.n = cut->out * y->row_bytes;
            break;
        case MICA_KERNEL_CONCAT_S8:
            for (uint32_t k = 0; k < s->p.concat.n; ++k) {
                s->p.concat.x[k] = (const int8_t *)cut->x[k];
            }
            s->p.concat.y = to;
            s->p.concat.rows = s->p.concat.rows / y->rows * cut->out;
            break;
    }
}

// Rows that leave are overwritten by those that stay, after the call has been taken note of.
static void drop_rows(const mica_rows_t *y, uint32_t drop) {
    if (drop != 0) {
        memmove(y->data, y->data + (size_t)drop * y->row_bytes, (size_t)(y->made - y->first) * y->row_bytes);
    }
}

// The caller delivers rows, or, where none is named, the input's zero point does. False where the file has changed.
static bool feed_rows(const mica_model_t *m, const uint8_t *r) {
    const mica_order_t *o = m->order;
    const uint32_t drop = mica_u16(r + MICA_ORDER_DROP);
    cut_t cut;
    if (take_fed(m, mica_u16(r + MICA_ORDER_ROWS), drop, &cut) != NULL) {
        return false;
    }
    const mica_rows_t *x = &o->tensors[o->fed];
    drop_rows(x, drop);
    if (o->feed != NULL) {
        o->feed(o->feed_context, x->made, x->have, cut.y);
        return true;
    }
    mica_tensor_t t;
    memset(cut.y, mica_tensor(m, o->fed, &t) ? (uint8_t)t.zero_point : 0, (size_t)cut.out * x->row_bytes);
    return true;
}

// The record behind those that feed rows, or null: the end, or a file that changed.
static const uint8_t *next_record(const mica_model_t *m) {
    mica_order_t *o = m->order;
    while (o->next < mica_count(&m->file, MICA_KIND_ORDER)) {
        const uint8_t *r = mica_order_record(m, o->next);
        if (mica_u16(r + MICA_ORDER_STEP) != MICA_FEED) {
            return r;
        }
        if (!feed_rows(m, r)) {
            return NULL;
        }
        ++o->next;
    }
    return NULL;
}

// Brings up the next call: what it needs of the fed input is delivered, and steps[n_steps] becomes the call.
static void next_call(const mica_model_t *m) {
    mica_order_t *o = m->order;
    o->row = o->rows = 0;
    const uint8_t *r = next_record(m);
    mica_step_t *piece = &m->steps[m->info.n_steps];
    const uint32_t step = r == NULL ? MICA_NEW_STRIP : mica_u16(r + MICA_ORDER_STEP);
    if (step < o->head || step >= o->head + o->steps[o->head].steps) {
        return;  // the end, or a file that changed
    }
    const mica_strip_step_t *s = &o->steps[step];
    const mica_rows_t *y = &o->tensors[s->y];
    const uint32_t drop = mica_u16(r + MICA_ORDER_DROP);
    cut_t cut;
    if (take(m, s, mica_u16(r + MICA_ORDER_ROWS), drop, &cut) != NULL) {
        return;
    }
    drop_rows(y, drop);
    *piece = m->steps[step];
    cut_step(piece, s->kernel, &cut, y);
    o->step = step;
    o->rows = cut.out;
    ++o->next;
}

uint32_t mica_fed_input(const mica_model_t *m) {
    for (uint32_t i = 0; m->order != NULL && m->order->fed != MICA_NO_TENSOR && i < m->info.n_inputs; ++i) {
        if (mica_input_id(m, i) == m->order->fed) {
            return i;
        }
    }
    return UINT32_MAX;
}

void mica_set_feed(const mica_model_t *m, mica_feed_t feed, void *context) {
    if (m->order != NULL) {
        m->order->feed = feed;
        m->order->feed_context = context;
    }
}

bool mica_is_strip(const mica_model_t *m, uint32_t i) {
    return mica_in_strip(m, i) && m->order->steps[i].steps != 0;
}

uint32_t mica_strip_steps(const mica_model_t *m, uint32_t i) {
    return mica_in_strip(m, i) ? m->order->steps[i].steps : 1;
}

uint32_t mica_strip_rows(const mica_model_t *m, uint32_t i) {
    const mica_strip_step_t *s = &m->order->steps[i];
    uint32_t rows = 0;
    for (uint32_t k = 0; k < s->steps; ++k) {
        rows += m->order->tensors[s[k].y].rows;
    }
    return rows;
}

bool mica_strip_next(const mica_model_t *m, uint32_t i, uint32_t at, mica_call_t *call) {
    mica_order_t *o = m->order;
    if (!mica_is_strip(m, i)) {
        return false;
    }
    if (at == 0) {
        o->head = i;
        o->at = o->row = o->rows = 0;
        o->next = o->steps[i].call;
        forget(m, i);
    }
    if (o->head != i || o->at != at) {
        return false;
    }
    if (o->row == o->rows) {
        next_call(m);
    }
    if (o->row == o->rows) {
        return false;
    }
    *call = (mica_call_t) { .step = o->step, .piece = m->info.n_steps, .row = o->row, .rows = o->rows };
    call->scale = m->steps[call->piece].run(&m->steps[call->piece], 0, 0, NULL, 0) / o->rows;
    return true;
}

void mica_strip_ran(const mica_model_t *m, uint32_t rows) {
    mica_order_t *o = m->order;
    const uint32_t left = o->rows - o->row;
    o->row += rows < left ? rows : left;
    o->at += rows < left ? rows : left;
}

void mica_strip_run(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end) {
    mica_call_t call;
    while (begin < end && mica_strip_next(m, i, begin, &call)) {
        uint32_t rows = call.rows - call.row;
        rows = rows < end - begin ? rows : end - begin;
        const mica_step_t *s = &m->steps[call.piece];
        s->run(s, call.row * call.scale, (call.row + rows) * call.scale, m->scratch, m->scratch_bytes);
        mica_strip_ran(m, rows);
        begin += rows;
    }
}

bool mica_rows_made(const mica_model_t *m, uint32_t id, mica_tensor_t *t) {
    if (!mica_tensor(m, id, t)) {
        return false;
    }
    if (m->order != NULL) {
        const mica_rows_t *y = &m->order->tensors[id];
        t->data = y->data + (size_t)(y->made - y->first) * y->row_bytes;
        t->bytes = (uint32_t)(y->have - y->made) * y->row_bytes;
    }
    return true;
}

void mica_tensor_rows(const mica_model_t *m, uint32_t id, uint32_t *first, uint32_t *made, uint32_t *have) {
    *first = *made = *have = 0;
    if (m->order != NULL && id < m->info.n_tensors) {
        const mica_rows_t *t = &m->order->tensors[id];
        *first = t->first;
        *made = t->made;
        *have = t->have;
    }
}
#endif

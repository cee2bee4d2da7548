// mica: the loaders of the operators. mica_load_<operator> reads a step's record into the kernel's parameters, has the
// kernel check them, and leaves in the step a function that runs it.
#ifndef MICA_OP_H
#define MICA_OP_H

#include "mica_select.h"
#include "model.h"

#define MICA_RUN_ARGS const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes
// A loader, whose body follows: r is the record, p the kernel's parameters, and what goes wrong stays in r. Before it
// stands run_<op>, the step's function: rows [begin, end) as far as they exist; returns how many exist.
#define MICA_LOADER(op, name) MICA_LOADER_THEN(op, name, (void)s)
#define MICA_LOADER_THEN(op, name, then) \
    static void load_##op(mica_step_record_t *r, mica_##name##_t *p); \
    void mica_load_##op(mica_step_record_t *r, mica_step_t *s) { \
        s->run = run_##op; \
        load_##op(r, &s->p.op); \
        then; \
    } \
    static void load_##op(mica_step_record_t *r, mica_##name##_t *p)
#define MICA_LOAD_ROWS(op, OP) MICA_LOAD_ROWS_OF(op, op##_s8, OP##_S8)
#define MICA_LOAD_ROWS_OF(op, name, NAME) MICA_RUN_ROWS(op, name, NAME) MICA_LOADER(op, name)
#define MICA_RUN_ROWS(op, name, NAME) \
    static uint32_t run_##op(MICA_RUN_ARGS) { \
        const uint32_t rows = mica_##name##_rows(&s->p.op); \
        end = end < rows ? end : rows; \
        if (begin < end) { \
            MICA_##NAME(&s->p.op, begin, end, scratch, scratch_bytes); \
        } \
        return rows; \
    }

// The same for kernels with a window. Where the image is one row high, as signals are, a row is a column of the output.
#define MICA_LOAD_WINDOW(op, OP) \
    static uint32_t run_##op(MICA_RUN_ARGS) { \
        const mica_##op##_s8_t *p = &s->p.op; \
        const uint32_t rows = mica_window_cuts(&p->win); \
        end = end < rows ? end : rows; \
        if (begin < end) { \
            if (rows == p->win.out_h) { \
                MICA_##OP##_S8(p, begin, end, scratch, scratch_bytes); \
            } else if (end - begin == rows) { \
                MICA_##OP##_S8(p, 0, 1, scratch, scratch_bytes); \
            } else { \
                mica_##op##_s8_t piece = *p; \
                piece.x += mica_window_cut(&piece.win, begin, end); \
                piece.y += (size_t)begin * p->win.out_c; \
                MICA_##OP##_S8(&piece, 0, 1, scratch, scratch_bytes); \
            } \
        } \
        return rows; \
    } \
    MICA_LOADER(op, op##_s8)

// What most loaders begin with: the output and the first input.
#define MICA_LOAD_ONE(r, p) ((p)->y = (r)->y.data, (void)((p)->x = (r)->x[0].data))
// The same of two inputs that broadcast; then, for kernels that subtract them, the zero points.
#define MICA_LOAD_TWO(r, p) ((p)->y = (r)->y.data, (p)->a = (r)->x[0].data, (void)((p)->b = (r)->x[1].data))
#define MICA_LOAD_ZEROS(r, p) \
    ((p)->a_zero = (int8_t)(r)->x[0].zero_point, (p)->b_zero = (int8_t)(r)->x[1].zero_point, \
        (void)((p)->y_zero = (int8_t)(r)->y.zero_point))
// What a loader ends with: a last check, where all went well so far.
#define MICA_LOAD_END(r, check) ((void)(mica_load_ok(r) && mica_load_checked(r, check)))

// Then, for operators whose tables may be compiled: the step's function is the code made from its tables, if this build
// has it (host_tools/mica/toolchain/tree_code.py).
#ifdef MICA_TREE_CODE
#define MICA_LOAD_CODE(op) ((void)(mica_load_ok(r) && (mica_##op##_code(s), true)))
void mica_forest_code(mica_step_t *s);
void mica_ranks_code(mica_step_t *s);
#else
#define MICA_LOAD_CODE(op) ((void)s)
#endif

// Into how many pieces a window's output can be cut: its rows; or its columns, where image and output are one row high
// and every window begins inside the image or before it.
uint32_t mica_window_cuts(const mica_window_t *w);
// Makes w, which was cut into columns, the window of columns [begin, end) alone, and returns the bytes of x that lie
// before its image. The image still reaches to the end of x, so what is outside of it is the same.
size_t mica_window_cut(mica_window_t *w, uint32_t begin, uint32_t end);
// Where s is a convolution of which each pixel of the output needs the same pixel of the input alone: the same step
// over an image one row high, that columns can be cut from. Returns how many of those a row of s is; 0 where s is
// something else.
uint32_t mica_conv2d_by_pixels(const mica_step_t *s, mica_step_t *to);  // not without MICA_CONV2D_S8
// Where s is the mean of a whole image: the same step with a row for every four channels, which is returned; else 0.
uint32_t mica_average_pool2d_by_channels(const mica_step_t *s, mica_step_t *to);  // not without MICA_AVERAGE_POOL2D_S8

// Whether one core gets the weights of s sooner: a single row, whose halves need different ones.
bool mica_fully_connected_alone(const mica_step_t *s);  // not without MICA_FULLY_CONNECTED_S8

// What log_mel_s8 and pcen_s8 have in common: the first parameters, up to pre-emphasis, and the first constants, but
// for those behind the filters.
void mica_load_sound_params(mica_step_record_t *r, mica_log_mel_s8_t *p);
void mica_load_sound_tables(mica_step_record_t *r, mica_log_mel_s8_t *p);

#define MICA_DECLARE(op, name, NAME) void mica_load_##op(mica_step_record_t *r, mica_step_t *s);
MICA_OPERATORS(MICA_DECLARE)
#undef MICA_DECLARE

#endif

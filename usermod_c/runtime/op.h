// mica: the loaders of the operators. mica_load_<operator> reads a step's record into the kernel's parameters, has the
// kernel check them, and leaves in the step a function that runs it.
#ifndef MICA_OP_H
#define MICA_OP_H

#include "mica_select.h"
#include "model.h"

// A step's run(), in the file of its operator: rows [begin, end) as far as they exist; returns how many exist.
#define MICA_RUN_ROWS(kernel, KERNEL) MICA_RUN_ROWS_OF(kernel, mica_##kernel##_s8_rows, MICA_##KERNEL##_S8)
#define MICA_RUN_ROWS_OF(op, rows_of, variant) \
    static uint32_t run(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) { \
        const uint32_t rows = rows_of(&s->p.op); \
        end = end < rows ? end : rows; \
        if (begin < end) { \
            variant(&s->p.op, begin, end, scratch, scratch_bytes); \
        } \
        return rows; \
    }

// The same for kernels with a window. Where the image is one row high, as signals are, a row is a column of the output.
#define MICA_RUN_WINDOW(kernel, KERNEL) \
    static uint32_t run(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) { \
        const mica_##kernel##_s8_t *p = &s->p.kernel; \
        const uint32_t rows = mica_window_cuts(&p->win); \
        end = end < rows ? end : rows; \
        if (begin < end) { \
            if (rows == p->win.out_h) { \
                MICA_##KERNEL##_S8(p, begin, end, scratch, scratch_bytes); \
            } else if (end - begin == rows) { \
                MICA_##KERNEL##_S8(p, 0, 1, scratch, scratch_bytes); \
            } else { \
                mica_##kernel##_s8_t piece = *p; \
                piece.x += mica_window_cut(&piece.win, begin, end); \
                piece.y += (size_t)begin * p->win.out_c; \
                MICA_##KERNEL##_S8(&piece, 0, 1, scratch, scratch_bytes); \
            } \
        } \
        return rows; \
    }

// What most loaders begin with: the step's function, its output and its first input.
#define MICA_LOAD_BEGIN(r, s, p) ((s)->run = run, (p)->y = (r)->y.data, (void)((p)->x = (r)->x[0].data))
// The same of two inputs that broadcast; then, for kernels that subtract them, the zero points.
#define MICA_LOAD_TWO(r, s, p) \
    ((s)->run = run, (p)->y = (r)->y.data, (p)->a = (r)->x[0].data, (void)((p)->b = (r)->x[1].data))
#define MICA_LOAD_ZEROS(r, p) \
    ((p)->a_zero = (int8_t)(r)->x[0].zero_point, (p)->b_zero = (int8_t)(r)->x[1].zero_point, \
        (void)((p)->y_zero = (int8_t)(r)->y.zero_point))
// What a loader ends with: a last check, where all went well so far.
#define MICA_LOAD_END(r, check) ((void)(mica_load_ok(r) && mica_load_checked(r, check)), (r)->err->status)

// Then, for operators whose tables may be compiled: the step's function is the code made from its tables, if this build
// has it (host_tools/mica/toolchain/tree_code.py).
#ifdef MICA_TREE_CODE
#define MICA_LOAD_CODE(op, r, s) ((void)(mica_load_ok(r) && (mica_##op##_code(s), true)), (r)->err->status)
void mica_forest_code(mica_step_t *s);
void mica_ranks_code(mica_step_t *s);
#else
#define MICA_LOAD_CODE(op, r, s) ((r)->err->status)
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

// What log_mel_s8 and pcen_s8 have in common: the first parameters, up to pre-emphasis, and the first constants, but
// for those behind the filters.
void mica_load_sound_params(mica_step_record_t *r, mica_log_mel_s8_t *p);
void mica_load_sound_tables(mica_step_record_t *r, mica_log_mel_s8_t *p);

#define MICA_LOADER(op, name, NAME) mica_status_t mica_load_##op(mica_step_record_t *r, mica_step_t *s);
MICA_OPERATORS(MICA_LOADER)
#undef MICA_LOADER

#endif

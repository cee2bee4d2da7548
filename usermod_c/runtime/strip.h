// mica: strips. Neighbouring steps that run together, some rows of each in turn, over tensors of which only some rows
// are kept. The section ORDER lists the calls in the order in which they run: a step, how many more rows of its output
// it makes, and how many of the oldest rows of that output leave the memory before. See host_tools/mica/format/SPEC.md.
//
// A call is validated when the model is loaded and again when it runs, by the same code: the section stays in the file,
// which may change. All else that forms an address is here, in the model's memory.
#ifndef MICA_STRIP_H
#define MICA_STRIP_H

#include "mica.h"

// Rows of a tensor [1, H, W, C]. Of one that is there whole, or has another shape, `some` is false and first stays 0.
typedef struct {
    uint8_t *data;        // of row `first`
    uint32_t row_bytes;
    uint16_t rows;        // H; 1 where the shape is another
    uint16_t first, have; // rows [first, have) are in memory
    uint16_t made;        // of which the last call made [made, have)
    bool some;            // kept by rows
    bool image;           // has the shape [1, H, W, C]
} mica_rows_t;

typedef struct {
    uint32_t call;        // of the first step of a strip: its first record in ORDER
    uint32_t reach;       // rows from the first to the last that a window reads
    uint16_t stride, pad; // of a window; 0 where rows are made of rows, one by one
    uint16_t x[MICA_MAX_INPUTS], y;
    uint16_t steps;       // of the first step of a strip: how many it has; 0 at the others
    uint8_t n_inputs, kernel;
    bool strip;           // is in one
} mica_strip_step_t;

struct mica_order {
    mica_rows_t *tensors;       // info.n_tensors of them
    mica_strip_step_t *steps;   // info.n_steps
    uint32_t head;              // first step of the strip at work; UINT32_MAX: none is
    uint32_t at;                // rows that it has run
    uint32_t next;              // its next record in ORDER
    uint32_t step, row, rows;   // the call at work: its step, rows of it that have run, and all of them
    uint32_t first_head;        // first step of the first strip, with which the fed input begins anew
    uint16_t fed;               // tensor whose rows the caller delivers; MICA_NO_TENSOR: there is none
    mica_feed_t feed;
    void *feed_context;
};
typedef struct mica_order mica_order_t;

#endif

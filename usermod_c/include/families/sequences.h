// mica: recurrent networks and attention. How to read it: mica_kernels.h, which includes this file.
#ifndef MICA_FAMILIES_SEQUENCES_H
#define MICA_FAMILIES_SEQUENCES_H

#include "mica.h"

// ---- recurrent_s8: simple recurrent network, LSTM or GRU over a sequence; formulas: SPEC.md
//   x int8 [time, batch, in_n]; h0, c0 int8 [batch, units]; y int8 [time, batch, units] with every, else [batch, units]
//   with carried: h0, c0 int16 of any alignment, and in front of y the last hidden and cell states, likewise
//   weights int8 [G * units, in_n + units], G gates; terms int32 [4, G * units], then with peepholes [3, units]
//   shifts int8 [G * units]; tables int16 [257], a GRU needs no output table, a simple network no gate table either
//   scratch: mica_scratch_min, aligned to 2; rows: 1
#define MICA_TABLE_S16 257
enum { MICA_CELL_RNN, MICA_CELL_LSTM, MICA_CELL_GRU, MICA_CELL_GRU_RESET_AFTER };
typedef struct {
    int8_t in_shift, out_shift;
    int8_t h_zero, c0_zero, y_zero;
    uint8_t cell;         // MICA_CELL_*
    uint8_t initial;      // how many initial states: 0; 1: h0; 2: h0 and c0
    uint8_t cell_shift;   // of the cell state in front of its table, 0 to 15
    uint8_t output_shift; // of what the output table gives, 0 to 13
    uint8_t reverse;      // from the last time step to the first
    uint8_t every;        // y is every hidden state, not the last one
    uint8_t cell_result;  // y is the last cell state
    uint8_t carried;      // states come and go as they are inside, 16 bits each
    uint8_t coupled;      // the forget gate is 1 - the input gate
    uint8_t peepholes;
    uint16_t time, batch, in_n, units;
    const int8_t *x;
    const int8_t *h0, *c0;   // initial states; initial says which of them there are
    int8_t *y;
    const int8_t *weights;
    const int32_t *terms;
    const int8_t *shifts;
    const int16_t *gate, *candidate, *output;  // tables
    int32_t in_mult, out_mult;  // c0 to the cell state, and back to y
} mica_recurrent_s8_t;

size_t mica_recurrent_s8_weights_bytes(const mica_recurrent_s8_t *p);
uint32_t mica_recurrent_s8_terms(const mica_recurrent_s8_t *p);      // elements
uint32_t mica_recurrent_s8_channels(const mica_recurrent_s8_t *p);   // elements of shifts

// Rows of [batch, units] bytes in front of y that hold the last states.
static inline uint32_t mica_recurrent_s8_ahead(const mica_recurrent_s8_t *p) {
    return !p->carried ? 0 : p->cell == MICA_CELL_LSTM ? 4 : 2;
}

// ---- attend_s8: rows of queries, of which heads share keys and values; formula: SPEC.md, kernel 48
//   q int8 [heads, m, d]; k int8 [heads, t, d]; v int8 [heads, t, e]; y int8 [heads, m, e]
//   length int32 [1], length + more limited to [1, t]
//   table uint16 [257]; scratch: mica_attend_s8_scratch_bytes(p), 4-byte aligned; rows: heads * m
typedef struct {
    int8_t fall_shift, shift;
    int8_t q_zero, k_zero, v_zero, y_zero;
    int8_t act_min, act_max;
    uint8_t more;
    const int8_t *q, *k, *v;
    const int32_t *length;
    int8_t *y;
    const uint16_t *table;
    uint16_t first;  // table[0] when it was checked
    uint32_t heads, limit, fall;
    int32_t mult;
    uint16_t m, t, d, e;
} mica_attend_s8_t;

// As many rows of keys and values as there are to be seen.
static inline uint32_t mica_attend_s8_seen(const mica_attend_s8_t *p) {
    const int32_t asked = *p->length, more = p->more;
    return asked < 1 - more ? 1 : asked > p->t - more ? p->t : (uint32_t)(asked + more);
}

uint32_t mica_attend_s8_scratch_bytes(const mica_attend_s8_t *p);

// ---- rotate_s8: rows of two halves, turned against each other; formula: SPEC.md, kernel 49
//   x, y int8 [rows, 2 * half]; c, s int8 [turns, half], each row for `inner` rows of x, and then again; y may be x
typedef struct {
    uint8_t shift;
    int8_t x_zero, c_zero, s_zero, y_zero;
    int8_t act_min, act_max;
    const int8_t *x, *c, *s;
    int8_t *y;
    uint32_t rows, half, turns, inner;
    int32_t mult_c, mult_s;
} mica_rotate_s8_t;

#endif

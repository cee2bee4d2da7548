// mica: a head that learns on the embeddings of a frozen network, in integers alone. Oracle:
// host_tools/mica/reference/learning.py.
//
// Nothing is allocated. Memory is never left whatever the blocks hold; their numbers have a meaning only where these
// functions have written them.
#ifndef MICA_LEARN_H
#define MICA_LEARN_H

#include <stdbool.h>
#include <stddef.h>

#include "mica_port.h"

enum { MICA_LEARN_PROTOTYPE, MICA_LEARN_SOFTMAX, MICA_LEARN_ANOMALY };

#define MICA_LEARN_MAX_CLASSES (64)
#define MICA_LEARN_MAX_WIDTH (4096)  // a distance fits 32 bits
#define MICA_LEARN_MAX_KEPT (1024)
#define MICA_LEARN_ALL (65535)  // as `keep` of a prototype: it forgets nothing

// A class: this, then of a prototype int32 [width] sums and uint32 [width] sums of squares, of softmax int32 [width]
// weights; then, but for prototypes, int8 [width] of each kept example. mica_learn_block_bytes() in all, aligned to 4.
typedef struct {
    uint32_t count;    // examples taught, of which the last `keep` are there; of a prototype those it stands for
    uint32_t limit;    // a distance beyond it is unknown; 0: there is no limit
    uint32_t bias;     // of softmax, and the next, too; of a prototype a bit for each example, by its hash
    uint32_t shift;    // of sums; times 256: 16ths of a difference between logits that count: 16 in mica_learn_fit()
    int32_t row[];
} mica_learn_class_t;

typedef struct {
    int32_t kind, width, keep;
    int32_t setting;              // how loose, in 16ths; of an anomaly one alarm in so many
    int32_t best, score, margin;  // what mica_learn_judge() finds; the last two in 256ths
    // So far an array('i') in MicroPython.
    uint32_t classes;
    // uint8 [width] weights of distances, int8 [width] for an example, of softmax int8 [width], its centre; at an even
    // address.
    int8_t *work;
    mica_learn_class_t *blocks[MICA_LEARN_MAX_CLASSES];
} mica_learn_t;

#define MICA_LEARN_NUMBERS_BYTES (offsetof(mica_learn_t, classes))

bool mica_learn_check(const mica_learn_t *p); // the numbers
size_t mica_learn_block_bytes(const mica_learn_t *p, uint32_t examples); // of a class that was taught so many

// Adds an example, x: int8 [width], to class k.
void mica_learn_teach(const mica_learn_t *p, uint32_t k, const int8_t *x);
// Learns from all examples, in steps of a few milliseconds: with step 0, 1, ... until it returns false.
bool mica_learn_fit(mica_learn_t *p, uint32_t step);
// Finds the class that is closest; at least one is there. x may lie in `work`, where an example does.
void mica_learn_judge(mica_learn_t *p, const int8_t *x);

#endif

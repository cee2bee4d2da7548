// The sum of decision trees on a Cortex-M0+: tree_walk.S walks through all of them for a row.
#include "kernels.h"
#ifndef MICA_WITHOUT_TREES_S8

#include "requant.h"

#define FAST (1u << 29)  // sums below it need no product of 64 bits

void mica_trees_s8_armv6m(const mica_trees_s8_t *p, MICA_KERNEL_ARGS) {
    if (p->words < 4) {  // no node with children fits
        mica_trees_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    int32_t *sum = scratch;
    mica_walk_t args = {
        .words = p->words,
        .roots_end = p->roots + p->trees,
        .nodes = p->nodes,
        .sum = sum,
        .sum_bytes = 4u * p->out_n,
        .leaves = p->nodes + p->words - 4,
        .columns = p->in_n,
        .roots = p->roots,
    };
    for (uint32_t r = row_begin; r < row_end; ++r) {
        int8_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t n = 0; n < p->out_n; ++n) {
            sum[n] = p->bias[n];
        }
        args.x = p->x + (size_t)r * p->in_n;
        mica_armv6m_trees(&args);
        for (uint32_t n = 0; n < p->out_n; ++n) {
            bool fast = p->shift >= 1 && (uint32_t)sum[n] + FAST < 2 * FAST;
            y[n] = (fast ? mica_requant_fast : mica_requant_s8)(sum[n], p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

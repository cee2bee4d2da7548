// The sum of decision trees of one-word nodes on a Cortex-M0+: forest_walk.S walks through all of them for a row.
#include "kernels.h"
#ifndef MICA_WITHOUT_FOREST_S8

#include "requant.h"

#define FAST (1u << 29)  // sums below it need no product of 64 bits

void mica_forest_s8_armv6m(const mica_forest_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int8_t *row = scratch;  // so that no column that a node names lies outside
    int32_t *sum = (int32_t *)scratch + 64;
    mica_forest_walk_t args = {
        .x = row,
        .whole = p->words - MICA_FOREST_SPARE,
        .leaves = p->leaves,
        .sum = sum,
        .nodes = p->nodes,
        .sum_bytes = 4u * p->out_n,
        .roots = p->roots,
        .roots_end = p->roots + p->trees,
        .nodes_end = p->nodes + p->words - MICA_FOREST_SPARE,
        .leaves_end = p->leaves + p->units,
    };
    for (uint32_t r = row_begin; r < row_end; ++r) {
        int8_t *y = p->y + (size_t)r * p->out_n;
        mica_copy(row, p->x + (size_t)r * p->in_n, p->in_n);
        row[255] = 127;
        for (uint32_t n = 0; n < p->out_n; ++n) {
            sum[n] = p->bias[n];
        }
        mica_armv6m_forest(&args);
        for (uint32_t n = 0; n < p->out_n; ++n) {
            bool fast = p->shift >= 1 && (uint32_t)sum[n] + FAST < 2 * FAST;
            y[n] = (fast ? mica_requant_fast : mica_requant_s8)(sum[n], p->mult, p->shift, p->y_zero, p->act_min,
                p->act_max);
        }
    }
}

#endif

// Ranks of features on a Cortex-M0+: rank_search.S does a row.
#include "kernels.h"
#ifndef MICA_WITHOUT_RANKS_S8

void mica_ranks_s8_armv6m(const mica_ranks_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch;
    (void)scratch_bytes;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        int8_t *y = p->y + (size_t)r * p->out_n;
        const mica_rank_t args = {
            .y = y,
            .first = p->first,
            .source = p->source,
            .x = p->x + (size_t)r * p->in_n,
            .thresholds = p->thresholds,
            .y_end = y + p->out_n,
            .n_thresholds = p->n_thresholds,
            .columns = p->in_n,
            .missing = p->missing,
        };
        mica_armv6m_ranks(&args);
    }
}

#endif

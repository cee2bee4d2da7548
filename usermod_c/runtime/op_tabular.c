#include "op.h"

#ifndef MICA_WITHOUT_FEATURES_S8
MICA_LOAD_ROWS(features, FEATURES) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_same_shape(r) || !mica_load_rows(r, &p->rows, &p->n, &p->n)) {
        return;
    }
    mica_load_act(r, MICA_FEATURES_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_features_s8_check(p, &r->what))) {
        p->scale = mica_load_blob(r, MICA_FEATURES_S8_BLOB_SCALE, (size_t)p->n * 4, MICA_BLOB_ALIGN);
        p->exponent = mica_load_blob(r, MICA_FEATURES_S8_BLOB_EXPONENT, p->n, MICA_BLOB_ALIGN);
        p->offset = mica_load_blob(r, MICA_FEATURES_S8_BLOB_OFFSET, (size_t)p->n * 4, MICA_BLOB_ALIGN);
        p->missing = mica_load_blob(r, MICA_FEATURES_S8_BLOB_MISSING, p->n, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_features_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_RANKS_S8
MICA_RUN_ROWS(ranks, ranks_s8, RANKS_S8)
MICA_LOADER_THEN(ranks, ranks_s8, MICA_LOAD_CODE(ranks)) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return;
    }
    p->n_thresholds = (uint32_t)mica_load_param(r, MICA_RANKS_S8_PARAM_COUNT, 0, MICA_MAX_BYTES / 4);
    if (mica_load_ok(r) && mica_load_checked(r, mica_ranks_s8_check(p, &r->what))) {
        p->thresholds = mica_load_blob(r, MICA_RANKS_S8_BLOB_THRESHOLDS, (size_t)p->n_thresholds * 4, MICA_BLOB_ALIGN);
        p->first = mica_load_blob(r, MICA_RANKS_S8_BLOB_FIRST, ((size_t)p->out_n + 1) * 4, MICA_BLOB_ALIGN);
        p->source = mica_load_blob(r, MICA_RANKS_S8_BLOB_SOURCE, (size_t)p->out_n * 2, MICA_BLOB_ALIGN);
        p->missing = mica_load_blob(r, MICA_RANKS_S8_BLOB_MISSING, p->out_n, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_ranks_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_TREES_S8
MICA_LOAD_ROWS(trees, TREES) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return;
    }
    p->y_zero = (int8_t)r->y.zero_point;
    p->words = (uint32_t)mica_load_param(r, MICA_TREES_S8_PARAM_WORDS, 1, MICA_MAX_BYTES / 2);
    p->trees = (uint32_t)mica_load_param(r, MICA_TREES_S8_PARAM_TREES, 1, 0xffff);
    mica_load_requant(r, MICA_TREES_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_TREES_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_trees_s8_check(p, &r->what))) {
        p->nodes = mica_load_blob(r, MICA_TREES_S8_BLOB_NODES, (size_t)p->words * 2, MICA_BLOB_ALIGN);
        p->roots = mica_load_blob(r, MICA_TREES_S8_BLOB_ROOTS, (size_t)p->trees * 4, MICA_BLOB_ALIGN);
        p->bias = mica_load_blob(r, MICA_TREES_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_trees_s8_check_constants(p, &r->what));
}
#endif

#ifndef MICA_WITHOUT_FOREST_S8
MICA_RUN_ROWS(forest, forest_s8, FOREST_S8)
MICA_LOADER_THEN(forest, forest_s8, MICA_LOAD_CODE(forest)) {
    MICA_LOAD_ONE(r, p);
    if (!mica_load_rows(r, &p->rows, &p->in_n, &p->out_n)) {
        return;
    }
    p->y_zero = (int8_t)r->y.zero_point;
    p->words = (uint32_t)mica_load_param(r, MICA_FOREST_S8_PARAM_WORDS, MICA_FOREST_SPARE + 1, MICA_MAX_BYTES / 4);
    p->units = (uint32_t)mica_load_param(r, MICA_FOREST_S8_PARAM_UNITS, 1, MICA_FOREST_FIELD + 1);
    p->trees = (uint32_t)mica_load_param(r, MICA_FOREST_S8_PARAM_TREES, 1, 0xffff);
    mica_load_requant(r, MICA_FOREST_S8_PARAM_MULT, &p->mult, &p->shift);
    mica_load_act(r, MICA_FOREST_S8_PARAM_ACT_MIN, &p->act_min, &p->act_max);
    if (mica_load_ok(r) && mica_load_checked(r, mica_forest_s8_check(p, &r->what))) {
        p->nodes = mica_load_blob(r, MICA_FOREST_S8_BLOB_NODES, (size_t)p->words * 4, MICA_BLOB_ALIGN);
        p->roots = mica_load_blob(r, MICA_FOREST_S8_BLOB_ROOTS, (size_t)p->trees * 4, MICA_BLOB_ALIGN);
        p->leaves = mica_load_blob(r, MICA_FOREST_S8_BLOB_LEAVES, (size_t)p->units * 4, MICA_BLOB_ALIGN);
        p->bias = mica_load_blob(r, MICA_FOREST_S8_BLOB_BIAS, (size_t)p->out_n * 4, MICA_BLOB_ALIGN);
    }
    MICA_LOAD_END(r, mica_forest_s8_check_constants(p, &r->what));
}
#endif

// The sum of decision trees whose nodes are words of 32 bits; contract in mica_kernels.h, words in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_FOREST_S8

#include "requant.h"

mica_status_t mica_forest_s8_check(const mica_forest_s8_t *p, const char **what) {
    if (!p->rows || !p->in_n || !p->out_n || p->in_n > MICA_FOREST_COLUMNS || p->out_n > MICA_TREE_COLUMNS
        || (uint64_t)p->rows * p->in_n > MICA_MAX_BYTES || (uint64_t)p->rows * p->out_n > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or a row too long";
        return MICA_ERR_SHAPE;
    }
    if (p->words <= MICA_FOREST_SPARE || p->words > MICA_MAX_BYTES / 4 || !p->units || p->units > MICA_FOREST_FIELD + 1
        || !p->trees || p->trees > 0xffff) {
        *what = "no trees, or too many";
        return MICA_ERR_RANGE;
    }
    *what = "act_min is above act_max, mult is negative or shift outside -30 to 31";
    bool sound = p->act_min <= p->act_max && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN
        && p->shift <= MICA_SHIFT_MAX;
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_forest_s8_rows(const mica_forest_s8_t *p) {
    return p->rows;
}

static uint32_t field(int32_t word) {
    return (uint32_t)word >> MICA_FOREST_SHIFT & MICA_FOREST_FIELD;
}

// A node at `at`. Where both children lie behind it and the last words are leaves, every walk ends in a leaf.
static mica_status_t check_node(const mica_forest_s8_t *p, uint32_t at, const char **what) {
    const int32_t word = p->nodes[at];
    const uint32_t v = field(word), whole = p->words - MICA_FOREST_SPARE;
    if (word & MICA_FOREST_LEAF) {
        *what = "a leaf of the trees has no entries, or another mark";
        bool sound = v < p->units && (word & (int32_t)~(MICA_FOREST_FIELD << MICA_FOREST_SHIFT))
            == (int32_t)MICA_FOREST_MARK;
        return sound ? MICA_OK : MICA_ERR_RANGE;
    }
    *what = "a tree asks for a column that the input does not have";
    if ((uint32_t)(word & 255) >= p->in_n) {
        return MICA_ERR_RANGE;
    }
    *what = "a child of a tree is not a node behind it";
    return at < whole && v < whole - at && at + 1 + v < whole ? MICA_OK : MICA_ERR_RANGE;
}

// An entry of a leaf: what it adds to, and the next one, which adds to a later number, so a tree adds once to each.
static mica_status_t check_entry(const mica_forest_s8_t *p, uint32_t at, const char **what) {
    const int32_t word = p->leaves[at];
    *what = "a leaf adds to a number that the output does not have";
    if ((uint32_t)(word & (MICA_FOREST_MORE - 1)) >= p->out_n) {
        return MICA_ERR_RANGE;
    }
    *what = "the entries of a leaf do not ascend";
    bool sound = !(word & MICA_FOREST_MORE)
        || (at + 1 < p->units && (p->leaves[at + 1] & (MICA_FOREST_MORE - 1)) > (word & (MICA_FOREST_MORE - 1)));
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

mica_status_t mica_forest_s8_check_constants(const mica_forest_s8_t *p, const char **what) {
    if (((uintptr_t)p->nodes | (uintptr_t)p->leaves) & 3) {
        *what = "a table is not aligned to 4";
        return MICA_ERR_ALIGN;
    }
    mica_status_t status = MICA_OK;
    for (uint32_t at = 0; at < p->words && status == MICA_OK; ++at) {
        status = check_node(p, at, what);
    }
    for (uint32_t at = 0; at < p->units && status == MICA_OK; ++at) {
        status = check_entry(p, at, what);
    }
    for (uint32_t t = 0; t < p->trees && status == MICA_OK; ++t) {
        *what = "a tree does not begin with a node";
        status = p->roots[t] < p->words - MICA_FOREST_SPARE ? MICA_OK : MICA_ERR_RANGE;
    }
    for (uint32_t n = 0; n < p->out_n && status == MICA_OK; ++n) {
        const uint32_t bias = p->bias[n] < 0 ? 0u - (uint32_t)p->bias[n] : (uint32_t)p->bias[n];
        *what = "the sum of the trees can overflow";
        status = bias + ((uint64_t)p->trees << 15) < 1u << 31 ? MICA_OK : MICA_ERR_RANGE;
    }
    return status;
}

// Where in `leaves` the entries begin of the leaf that a row reaches. In a file that changed since it was checked the
// way may lead astray, but never back nor beyond the end.
static uint32_t leaf_of(const mica_forest_s8_t *p, uint32_t at, const int8_t *x) {
    while (at < p->words) {
        const int32_t word = p->nodes[at];
        const uint32_t column = (uint32_t)word & 255;
        if (word & MICA_FOREST_LEAF) {
            return field(word);
        }
        if (column >= p->in_n) {
            break;
        }
        at += 1 + (x[column] > (int8_t)((uint32_t)word >> 24) ? field(word) : 0);
    }
    return p->units;
}

void mica_forest_s8_ref(const mica_forest_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int32_t *sum = scratch;
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int8_t *x = p->x + (size_t)r * p->in_n;
        int8_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t n = 0; n < p->out_n; ++n) {
            sum[n] = p->bias[n];
        }
        for (uint32_t t = 0; t < p->trees; ++t) {
            bool more = true;
            for (uint32_t at = leaf_of(p, p->roots[t], x); more && at < p->units; ++at) {
                const int32_t word = p->leaves[at];
                const uint32_t target = (uint32_t)word & (MICA_FOREST_MORE - 1);
                if (target >= p->out_n) {
                    break;
                }
                sum[target] += (int16_t)((uint32_t)word >> 16);
                more = word & MICA_FOREST_MORE;
            }
        }
        for (uint32_t n = 0; n < p->out_n; ++n) {
            y[n] = mica_requant_s8(sum[n], p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

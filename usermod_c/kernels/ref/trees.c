// The sum of decision trees; contract in mica_kernels.h, records in SPEC.md.
#include "mica_kernels.h"
#ifndef MICA_WITHOUT_TREES_S8

#include "requant.h"

#define LEAST (-0x4000)  // of what an entry adds

mica_status_t mica_trees_s8_check(const mica_trees_s8_t *p, const char **what) {
    if (!p->rows || !p->in_n || !p->out_n || p->in_n > MICA_TREE_COLUMNS || p->out_n > MICA_TREE_COLUMNS
        || (uint64_t)p->rows * p->in_n > MICA_MAX_BYTES || (uint64_t)p->rows * p->out_n > MICA_MAX_BYTES) {
        *what = "a dimension is 0, or a row too long";
        return MICA_ERR_SHAPE;
    }
    if (!p->words || p->words > MICA_MAX_BYTES / 2 || !p->trees || p->trees > 0xffff) {
        *what = "no trees, or too many";
        return MICA_ERR_RANGE;
    }
    *what = "act_min is above act_max, mult is negative or shift outside -30 to 31";
    bool sound = p->act_min <= p->act_max && p->mult >= MICA_MULT_MIN && p->shift >= MICA_SHIFT_MIN
        && p->shift <= MICA_SHIFT_MAX;
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

uint32_t mica_trees_s8_rows(const mica_trees_s8_t *p) {
    return p->rows;
}

static bool begins(const mica_trees_s8_t *p, uint32_t at) {
    return at < p->words && !(p->nodes[at] & MICA_TREE_INSIDE);
}

// The record of an inner node at `at`: its first child behind it, its second further on. So every walk ends.
static mica_status_t check_node(const mica_trees_s8_t *p, uint32_t at, const char **what) {
    *what = "a record of the trees is cut short, or begins in another";
    if (!begins(p, at + 3) || !(p->nodes[at + 1] & p->nodes[at + 2] & MICA_TREE_INSIDE)) {
        return MICA_ERR_RANGE;
    }
    *what = "a tree asks for a column that the input does not have";
    if (p->nodes[at] >= p->in_n) {
        return MICA_ERR_RANGE;
    }
    *what = "a child of a tree is not a record behind it";
    return begins(p, at + 3 + (p->nodes[at + 2] & MICA_TREE_JUMP)) ? MICA_OK : MICA_ERR_RANGE;
}

// An entry of a leaf: what it adds to, and the next one, which adds to a later number, so a tree adds once to each.
static mica_status_t check_entry(const mica_trees_s8_t *p, uint32_t at, const char **what) {
    *what = "a record of the trees is cut short, or begins in another";
    if (at + 1 >= p->words || !(p->nodes[at + 1] & MICA_TREE_INSIDE) || (at + 2 < p->words && !begins(p, at + 2))) {
        return MICA_ERR_RANGE;
    }
    const uint32_t head = p->nodes[at], target = head & (MICA_TREE_MORE - 1);
    *what = "a leaf adds to a number that the output does not have";
    if (target >= p->out_n) {
        return MICA_ERR_RANGE;
    }
    *what = "the entries of a leaf do not ascend";
    bool sound = !(head & MICA_TREE_MORE)
        || (begins(p, at + 2) && (p->nodes[at + 2] & MICA_TREE_LEAF)
        && (p->nodes[at + 2] & (MICA_TREE_MORE - 1)) > target);
    return sound ? MICA_OK : MICA_ERR_RANGE;
}

mica_status_t mica_trees_s8_check_constants(const mica_trees_s8_t *p, const char **what) {
    if ((uintptr_t)p->nodes & 1) {
        *what = "a table is not aligned to 2";
        return MICA_ERR_ALIGN;
    }
    if (!begins(p, 0)) {
        *what = "a record of the trees is cut short, or begins in another";
        return MICA_ERR_RANGE;
    }
    for (uint32_t at = 0; at < p->words;) {
        const bool leaf = p->nodes[at] & MICA_TREE_LEAF;
        mica_status_t status = leaf ? check_entry(p, at, what) : check_node(p, at, what);
        if (status != MICA_OK) {
            return status;
        }
        at += leaf ? 2 : 3;
    }
    for (uint32_t t = 0; t < p->trees; ++t) {
        if (!begins(p, p->roots[t])) {
            *what = "a tree does not begin with a record";
            return MICA_ERR_RANGE;
        }
    }
    *what = "the sum of the trees can overflow";
    for (uint32_t n = 0; n < p->out_n; ++n) {
        const uint32_t bias = p->bias[n] < 0 ? 0u - (uint32_t)p->bias[n] : (uint32_t)p->bias[n];
        if (bias + 0x4000u * p->trees >= 1u << 31) {
            return MICA_ERR_RANGE;
        }
    }
    return MICA_OK;
}

// The leaf that a row reaches from a node. In a file that changed since it was checked the way may lead astray, but
// never back nor beyond the end: from `leaves` on, where no node with children fits any more, only a leaf is looked
// for.
static const uint16_t *leaf_of(const uint16_t *node, const uint16_t *leaves, const int8_t *x, uint32_t in_n) {
    while (node < leaves) {
        const uint32_t head = *node;
        if (head >= in_n) {
            break;
        }
        const int32_t threshold = (int8_t)node[1];
        const uint32_t jump = node[2] & MICA_TREE_JUMP;
        node += 3;
        if (x[head] > threshold) {
            node += jump;
        }
    }
    return node;
}

// Adds the entries of a leaf.
static void add(int32_t *sum, uint32_t out_n, const uint16_t *entry, const uint16_t *end) {
    while (end - entry >= 2) {
        const uint32_t head = entry[0], target = head & (MICA_TREE_MORE - 1);
        if (target >= out_n) {
            break;
        }
        sum[target] += (int32_t)((entry[1] & 0x7fffu) ^ 0x4000u) + LEAST;
        if (!(head & MICA_TREE_MORE)) {
            break;
        }
        entry += 2;
    }
}

void mica_trees_s8_ref(const mica_trees_s8_t *p, MICA_KERNEL_ARGS) {
    (void)scratch_bytes;
    int32_t *sum = scratch;
    const uint16_t *end = p->nodes + p->words, *leaves = p->nodes + (p->words < 4 ? 0 : p->words - 4);
    for (uint32_t r = row_begin; r < row_end; ++r) {
        const int8_t *x = p->x + (size_t)r * p->in_n;
        int8_t *y = p->y + (size_t)r * p->out_n;
        for (uint32_t n = 0; n < p->out_n; ++n) {
            sum[n] = p->bias[n];
        }
        for (uint32_t t = 0; t < p->trees; ++t) {
            const uint32_t root = p->roots[t];
            if (root < p->words) {
                add(sum, p->out_n, leaf_of(p->nodes + root, leaves, x, p->in_n), end);
            }
        }
        for (uint32_t n = 0; n < p->out_n; ++n) {
            y[n] = mica_requant_s8(sum[n], p->mult, p->shift, p->y_zero, p->act_min, p->act_max);
        }
    }
}

#endif

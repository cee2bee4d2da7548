// mica: kernels of tables: trees, support vectors, neighbours. mica_kernels.h includes this, and says how to read it.
#ifndef MICA_FAMILIES_TABULAR_H
#define MICA_FAMILIES_TABULAR_H

#include "mica.h"

// ---- features_s8: y[r,f] = clamp((v + offset[f] + 2^7) >> 8), v = x[r,f] * scale[f] * 2^exponent[f], within +-2^40
//   x float32 [rows, n] as bit patterns; y int8 [rows, n]; a NaN gives clamp(missing[f]); rows: rows
typedef struct {
    int8_t act_min, act_max;
    const int32_t *x;
    int8_t *y;
    const int32_t *scale;  // above -2^31
    const int8_t *exponent;
    const int32_t *offset;
    const int8_t *missing;
    uint32_t rows;
    uint16_t n;
} mica_features_s8_t;

// ---- ranks_s8: y[r,c] = -128 + how many of the thresholds first[c] to first[c + 1] - 1 are less than x[r,source[c]]
//   x float32 [rows, in_n] as bit patterns; y int8 [rows, out_n]; a NaN gives missing[c]; first [out_n + 1]
//   thresholds: float32 as integers of the same order, ascending in each column (SPEC.md); rows: rows
typedef struct {
    const int32_t *x;
    int8_t *y;
    const int32_t *thresholds;  // n_thresholds of them
    const uint32_t *first;
    const uint16_t *source;
    const int8_t *missing;
    uint32_t rows, n_thresholds;
    uint16_t in_n, out_n;
} mica_ranks_s8_t;

// ---- trees_s8: y[r,n] = clamp(y_zero + requant(bias[n] + what the leaves that x[r] reaches add to n))
//   x int8 [rows, in_n]; y int8 [rows, out_n]; nodes uint16 [words], a tree begins at each of roots [trees]
//   scratch: mica_scratch_min, 4 bytes for each of out_n; rows: rows
#define MICA_TREE_INSIDE 0x8000  // not the first word of a record
#define MICA_TREE_LEAF 0x4000    // the first word of a leaf's entry
#define MICA_TREE_MORE 0x2000    // another entry follows
#define MICA_TREE_COLUMNS 0x2000 // most columns of x and of y
#define MICA_TREE_JUMP 0x7fff    // words from a node's first child to its second
typedef struct {
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    const uint16_t *nodes;
    const uint32_t *roots;
    const int32_t *bias;
    uint32_t rows, words, trees;
    uint16_t in_n, out_n;
    int32_t mult;
} mica_trees_s8_t;

// ---- forest_s8: as trees_s8, for trees of up to 255 columns whose nodes are words of 32 bits
//   x int8 [rows, in_n]; y int8 [rows, out_n]; nodes int32 [words], the last MICA_FOREST_SPARE of them spare leaves,
//   a tree begins at each of roots [trees]; leaves int32 [units], an entry each
//   scratch: mica_scratch_min, a row of x filled up to 256 bytes and 4 bytes for each of out_n; rows: rows
#define MICA_FOREST_LEAF 0x800000    // of a node: a leaf
#define MICA_FOREST_SHIFT 8          // of its field: words from the first child to the second, or a leaf's first entry
#define MICA_FOREST_FIELD 0x7fff     // largest field
#define MICA_FOREST_MARK 0x808000ffu // a leaf without its field: x[255] > -128, which a walk takes for true
#define MICA_FOREST_MORE 0x8000      // of an entry: another one follows
#define MICA_FOREST_COLUMNS 255      // most columns of x
#define MICA_FOREST_SPARE 3          // so that four words are read for each look at the end
typedef struct {
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int8_t *x;
    int8_t *y;
    const int32_t *nodes, *leaves;
    const uint32_t *roots;
    const int32_t *bias;
    uint32_t rows, words, trees, units;
    uint16_t in_n, out_n;
    int32_t mult;
} mica_forest_s8_t;

// ---- distances_s8: y[r,s] = the sum over f of |g[f] - points[f,s]|, of its square, or of g[f] * points[f,s]
//   x float32 [rows, in_n] as bit patterns; y int32 [rows, out_n]; points int16 [in_n, out_n], missing: within +-bound
//   g[f] = x[r,f] on its grid (kernels/place.h), limited to +-bound; missing[f] for a NaN; rows: rows
#define MICA_DISTANCES_SUM 0
#define MICA_DISTANCES_SQUARES 1
#define MICA_DISTANCES_PRODUCTS 2
typedef struct {
    uint8_t kind;
    const int32_t *x;
    int32_t *y;
    const int16_t *points;
    const int32_t *scale;  // above -2^31
    const int8_t *exponent;
    const int32_t *offset;
    const int16_t *missing;
    uint32_t rows;
    uint16_t in_n, out_n;
    int16_t bound;
} mica_distances_s8_t;

// ---- nearest_s8: y[r,n] = clamp(y_zero + requant(2^8 * weighted mean of values of the k nearest with target n))
//   x int32 [rows, in_n]; y int8 [rows, out_n]; target uint16, value int16 [in_n]; weights by kind (SPEC.md)
//   scratch: mica_scratch_min, 8 bytes for each of out_n, and 4; rows: rows
#define MICA_NEAREST_UNIFORM 0
#define MICA_NEAREST_BY_ROOT 1
#define MICA_NEAREST_BY_VALUE 2
#define MICA_NEAREST_REACH 3
typedef struct {
    uint8_t kind;
    int8_t shift;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int32_t *x;
    int8_t *y;
    const uint16_t *target;
    const int16_t *value;
    uint32_t rows;
    uint16_t in_n, out_n, k;
    int32_t mult;
} mica_nearest_s8_t;

// ---- machine_s8: y[r,n] = clamp(y_zero + requant(bias[n] + (the sum over s of f(x[r,s]) * factors[s,n] >> down)))
//   x int32 [rows, in_n]; y int8 [rows, out_n]; factors int16 [in_n, out_n]; f by in_mult, in_shift, in_offset and
//     table (SPEC.md)
//   scratch: mica_scratch_min, 8 bytes for each of out_n, and 4; rows: rows
#define MICA_MACHINE_TABLE 257  // entries
typedef struct {
    int8_t in_shift, shift;
    uint8_t down;
    int8_t y_zero;
    int8_t act_min, act_max;
    const int32_t *x;
    int8_t *y;
    const int32_t *table;  // within +-2^22
    const int16_t *factors;
    const int32_t *bias;
    uint32_t rows;
    uint16_t in_n, out_n;
    int32_t in_mult, in_offset, mult;
} mica_machine_s8_t;

#endif

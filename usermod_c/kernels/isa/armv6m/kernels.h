// mica: the assembly of this folder, as C sees it.
#ifndef MICA_ARMV6M_KERNELS_H
#define MICA_ARMV6M_KERNELS_H

#include "../c32/kernels.h"

// What mica_armv6m_gemm works on; it moves the pointers from channel to channel. Its offsets stand in gemm.S.
// A stream is a sequence of groups of four pixels, each `words` * 32 bytes: first pairs of all four, then second ones.
typedef struct {
    const uint32_t *x;        // the stream
    const uint32_t *end1;     // where it is interrupted: behind the first group, or at its end
    const uint32_t *end;
    uint32_t step;            // bytes from end1 to the next interruption, and so on
    int32_t adjust;           // what to add to the output's address behind the first group: the second may overlap it
    const int8_t *weights;    // of the channel: words of four, on a multiple of 4
    uint32_t words;           // 1 to MICA_GEMM_WORDS
    uint32_t row;             // bytes from channel to channel
    const int32_t *bias, *mult;
    const int8_t *shift;
    int8_t *y;                // the first pixel's
    uint32_t y_step;          // from pixel to pixel
    uint32_t channels;
    int32_t zero;             // y_zero - act_min
    uint32_t range;           // act_max - act_min
    int32_t low;              // act_min
    int32_t *sums;            // four for each group, of one channel behind those of another
    uint32_t flags;           // 1: go on from the sums; 2: leave the result there instead of requantising it
    const uint32_t *pairs;    // of layout CODES4, mica_armv6m_code_pairs; null: weights are bytes
    uint32_t drop;            // 15 + log2(words of all parts), rounded up, at most 21: bits of short products; 0: none
} mica_gemm_t;

#define MICA_GEMM_WORDS 64

void mica_armv6m_gemm(mica_gemm_t *args);
void mica_armv6m_unpack(const int8_t *x, uint32_t *to, uint32_t words, uint32_t pixels, int32_t x_step, uint32_t lane,
    uint32_t group);

// The same of patches that lie in pieces, of one part. The table has for each of its words where its elements 0, 2, 1
// and 3 lie behind x; for the last one where 0 and 2 lie and their factors, 1 and 2^16 or 0 for what only fills the
// word, then the same of 1 and 3.
void mica_armv6m_pick(const int8_t *x, uint32_t *to, const int32_t *table, uint32_t words, uint32_t pixels,
    int32_t x_step, uint32_t lane, uint32_t group);

// A tile while its stream is made. A patch of more than MICA_GEMM_WORDS words is cut into parts; part n of all pixels
// comes before part n + 1 of any.
typedef struct {
    const mica_conv2d_s8_t *p;
    uint32_t *stream;
    uint32_t *patch;          // words of one patch, or of what lies outside the image
    uint32_t words;           // of a patch
    uint32_t part_words;      // of a part, but the last
    uint32_t from, to;        // words of the patches that the stream holds: all of them, or one part
    uint32_t groups;
    const uint32_t *pairs;    // of codes; null: weights are bytes
    int32_t *table;           // of elements, part by part (mica_armv6m_pick); null: patches are words
} mica_tile_t;
// The stream of a tile of `pixels` pixels from (*oy, *ox) on, which are moved behind it.
void mica_armv6m_tile(const mica_tile_t *t, uint32_t pixels, int32_t *oy, int32_t *ox, bool aligned);
// The tables of mica_armv6m_pick, for a tile whose patches are not words.
void mica_armv6m_tile_table(const mica_tile_t *t);
// One patch as bytes, wherever they lie.
void mica_armv6m_patch(const mica_conv2d_s8_t *p, int8_t *to, int32_t iy, int32_t ix);

#define MICA_PAIRED_WORDS 96  // of a channel's weights in one call

// Where the outputs of four lanes lie: the first, from behind a lane's second, less a pixel's channels, to the next.
typedef struct {
    int8_t *y;
    int32_t lanes[3];
} mica_paired_places_t;

// What mica_armv6m_paired works on: one output channel. Its offsets stand in paired.S.
typedef struct {
    const uint32_t *x;        // of each group, row and channel of the input a word of each lane
    uint32_t groups;
    const mica_paired_places_t *places;
    int32_t next;             // bytes from behind what a row of the output reads to what the next one does
    uint32_t pitch;           // from row to row of y
    uint32_t rows;            // of the output, of each group
    int32_t next_group;       // the same behind a group's last row
    int32_t *sums;            // eight for each row of a group
    uint32_t flags;           // 1: go on from the sums; 2: leave the result there instead of requantising it
    const int8_t *weights;
    int32_t first, second;    // each word is weights[first] + weights[second] * 2^16
    uint32_t kernel_rows, channels;  // their product is 1 to MICA_PAIRED_WORDS
    uint32_t weights_pitch;   // from row to row of the kernel
    int32_t bias, mult;
    uint32_t shift;
    uint32_t y_offset;        // of the second output of the channel
    int32_t back;             // from the second to the first
    int32_t zero;             // y_zero - act_min
    uint32_t range;           // act_max - act_min
    int32_t low;              // act_min
    const uint32_t *pairs;    // of codes (mica_armv6m_code_pairs)
} mica_paired_t;

void mica_armv6m_paired(const mica_paired_t *args);
// The same of weights in codes: `first`, `second` and `weights_pitch` in bytes of them, `channels` and `first`
// multiples of four weights.
void mica_armv6m_paired_codes(const mica_paired_t *args);
void mica_armv6m_paired_words(const int8_t *x, uint32_t *to, int32_t first, int32_t second, uint32_t channels,
    uint32_t rows, int32_t pitch);
// Whole words of codes as bytes; `bytes` has of each byte of two codes the first weight, and the second * 2^16.
void mica_armv6m_decode(uint32_t *to, const int8_t *codes, const int8_t *codes_end, const uint32_t *bytes);
// The same as mica_conv2d_s8_armv6m; false, and nothing done, where it does not apply or takes more than 8 * `direct`
// cycles. pairs: null, or of weights in codes their table, which may be changed where it is used.
bool mica_conv2d_paired_armv6m(const mica_conv2d_s8_t *p, uint32_t row_begin, uint32_t row_end, void *scratch,
    size_t scratch_bytes, uint32_t direct, uint32_t *pairs);

// What mica_armv6m_depthwise works on, channel after channel. Its offsets stand in depthwise.S.
// Its table has for each word of a column of each band where the rows of x begin that the word's halves are of,
// MICA_OUTSIDE where there is none.
typedef struct {
    const int8_t *x;
    int8_t *y;
    const int8_t *weights;
    const int32_t *bias, *mult;
    const int8_t *shift;
    uint32_t channels;
    const int32_t *table, *table_end;
    uint32_t band;            // bytes of a band's rows in the table
    uint32_t *to;             // the first column inside the image
    uint32_t inside;          // bytes of x of a row of them
    uint32_t column;          // bytes from column to column
    uint32_t step;            // from pixel to pixel, of x and y
    const uint32_t *windows;  // the first one
    uint32_t row_step;        // bytes to the first one of the next row
    int32_t next;             // from behind a window to the next
    int32_t pitch;            // from row to row of y
    uint32_t lower;           // bytes of y from a row of the upper half to that of the lower half
    uint32_t half;            // bytes of y of a half
    uint32_t high, last;      // bytes from band to band, but to the last; where it begins
    int32_t zero;             // y_zero, less act_min unless the clamp is to the whole int8
    uint32_t range;           // act_max - act_min
    int32_t low, x_zero;
} mica_depthwise_t;

#define MICA_OUTSIDE (-1)

void mica_armv6m_depthwise(mica_depthwise_t *args);

// The same over a map of 2x2 with a pad of one, without a table; zero: y_zero - act_min.
void mica_armv6m_depthwise_2x2(mica_depthwise_t *args);

// What mica_armv6m_dense works on, in the order in which dense.S reads it.
typedef struct {
    const uint32_t *x, *x_end;  // crossed pairs, two for each word of weights
    const int8_t *weights, *weights_end;
    const int32_t *bias, *mult;
    const int8_t *shift;
    int8_t *y;
    int32_t zero;             // y_zero - act_min
    uint32_t range;           // act_max - act_min
    int32_t low;              // act_min
    const uint32_t *pairs;    // of layout CODES4, crossed; then x is not, and each word of codes has four pairs
    uint32_t row;             // of layout CODES4: bytes from a row to the next
} mica_dense_t;

void mica_armv6m_dense(const mica_dense_t *args);        // weights in OFFSET_ROWS
void mica_armv6m_dense_rows(const mica_dense_t *args);   // in ROWS
// In CODES4: an even number of rows; or one, twice, where `row` is 0.
void mica_armv6m_dense_code_pairs(const mica_dense_t *args);
// The same of n rows; sets weights_end.
void mica_armv6m_dense_codes(mica_dense_t *args, uint32_t n);
// k elements as crossed pairs: of each four (x2 + x0 * 2^16), (x3 + x1 * 2^16), those beyond the last 0.
void mica_armv6m_pairs(uint32_t *to, const int8_t *x, uint32_t k);
// The same uncrossed, (x0 + x2 * 2^16), (x1 + x3 * 2^16), filled up with zeros to a multiple of eight elements.
void mica_armv6m_even_pairs(uint32_t *to, const int8_t *x, uint32_t k);

#define MICA_CODE_PAIRS 256  // words of a table of them

// Of each byte of two codes the crossed pair of their weights: the second + the first * 2^16.
void mica_armv6m_code_pairs(uint32_t *to, const int8_t *table);

// What mica_armv6m_add works on, in the order in which sum.S reads it: y = clamp(zero + ((a * mult_a + b * mult_b +
// offset) >> shift)) for n elements, n >= 1.
typedef struct {
    const int8_t *a, *b;
    int8_t *y;
    uint32_t n;
    int32_t mult_a, mult_b, offset;
    uint32_t shift;           // 1 or more
    int32_t zero;             // y_zero - act_min
    uint32_t range;           // act_max - act_min
    int32_t low;              // act_min
} mica_sum_t;

void mica_armv6m_add(const mica_sum_t *args);

void mica_add_s8_armv6m(const mica_add_s8_t *p, MICA_KERNEL_ARGS);
void mica_fully_connected_s8_armv6m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS);
void mica_depthwise_conv2d_s8_armv6m(const mica_depthwise_conv2d_s8_t *p, MICA_KERNEL_ARGS);
void mica_conv2d_s8_armv6m(const mica_conv2d_s8_t *p, MICA_KERNEL_ARGS);

// What mica_armv6m_forest works on, in the order in which forest_walk.S reads it.
typedef struct {
    const int8_t *x;  // 256 bytes, the last of them 127
    uint32_t whole;   // nodes that trees reach
    const int32_t *leaves;
    int32_t *sum;
    const int32_t *nodes;
    uint32_t sum_bytes;
    const uint32_t *roots, *roots_end;
    const int32_t *nodes_end;  // nodes + whole
    const int32_t *leaves_end;
} mica_forest_walk_t;

void mica_armv6m_forest(const mica_forest_walk_t *args);
void mica_forest_s8_armv6m(const mica_forest_s8_t *p, MICA_KERNEL_ARGS);

// What mica_armv6m_ranks works on, in the order in which rank_search.S reads it: one row of features.
typedef struct {
    int8_t *y;
    const uint32_t *first;
    const uint16_t *source;
    const int32_t *x, *thresholds;
    const int8_t *y_end;
    uint32_t n_thresholds, columns;
    const int8_t *missing;
} mica_rank_t;

void mica_armv6m_ranks(const mica_rank_t *args);
void mica_ranks_s8_armv6m(const mica_ranks_s8_t *p, MICA_KERNEL_ARGS);

#define MICA_LINE_TAPS 16

// What mica_armv6m_line works on, channel after channel: `count` outputs along a line. Its offsets stand in line.S.
typedef struct {
    const int8_t *x;          // the first output's first tap
    int8_t *y;
    const int8_t *weights;
    const int32_t *bias, *mult;
    const int8_t *shift;
    uint32_t channels;
    uint32_t taps;            // 1 to MICA_LINE_TAPS
    uint32_t tap;             // bytes from tap to tap
    uint32_t step;            // bytes of x from output to output
    uint32_t count;           // more than 0
    uint32_t pitch;           // bytes of y from output to output
    int32_t zero;             // y_zero - low
    uint32_t range;           // act_max - low
    int32_t low;              // act_min
} mica_line_t;

void mica_armv6m_line(mica_line_t *args);

// What mica_armv6m_stage works on, in the order in which spectrum.S reads it. The factors are those of a circle
// (MICA_LOG_MEL_CIRCLE).
typedef struct {
    int32_t *q;               // the second part of the first butterfly
    const int16_t *twiddles;  // on a multiple of 4
    uint32_t step;            // bytes from factor to factor
    uint32_t bound;           // a power of two
    const int32_t *end;       // where the q behind the first factor's last would be
    uint32_t shift;           // 0 to 4; with one block not 2 or 3
    int32_t apart;            // bytes from p to q
} mica_stage_t;

// The same of mica_armv6m_block: one block of butterflies, a factor for each.
typedef struct {
    int32_t *q;
    const int16_t *twiddles;
    uint32_t bound;
    uint32_t step;
    int32_t back;             // half of the bytes from p to q, negative
    const int32_t *end;       // behind the first half of the block's second half
    uint32_t shift;           // 2 or 3
} mica_block_t;

// A frame of samples, a multiple of eight, into the places of z: times the window; with pre-emphasis; times the window
// there. All return the bits of what they wrote.
// Bounds are powers of two that all numbers v have to keep, -bound <= v < bound; each other doubles it; it is returned.
uint32_t mica_armv6m_take(const int16_t *x_end, const int16_t *window_end, int32_t *z, int32_t minus_bytes,
    uint32_t half);
uint32_t mica_armv6m_steep(const int16_t *x_end, int32_t preemphasis, int32_t *z, int32_t minus_bytes, uint32_t half,
    int32_t before);
uint32_t mica_armv6m_window(int32_t shift, const int16_t *window_end, int32_t *z, int32_t minus_bytes, uint32_t half);
uint32_t mica_armv6m_loudest(const int16_t *pairs, const int16_t *end);
void mica_armv6m_raise(int32_t *z, const int32_t *end, uint32_t up);
uint32_t mica_armv6m_first(int32_t *z, const int32_t *end, uint32_t shift, uint32_t bound);
uint32_t mica_armv6m_stage(const mica_stage_t *args);
uint32_t mica_armv6m_block(const mica_block_t *args);
uint32_t mica_armv6m_split(int32_t *z, uint32_t half, const int16_t *twiddles, uint32_t shift, uint32_t bound);
void mica_armv6m_squares(const int32_t *z, uint32_t *bins, const uint32_t *end, uint32_t shift);
void mica_armv6m_roots(uint32_t *v, const uint32_t *end, const uint32_t *table);
uint64_t mica_armv6m_band(const uint32_t *bins, const uint16_t *gains, uint32_t n);
int32_t mica_armv6m_dct(const int32_t *log, const int16_t *dct, uint32_t n);
void mica_log_mel_s8_armv6m(const mica_log_mel_s8_t *p, MICA_KERNEL_ARGS);
void mica_pcen_s8_armv6m(const mica_pcen_s8_t *p, MICA_KERNEL_ARGS);
void mica_axes_s8_armv6m(const mica_axes_s8_t *p, MICA_KERNEL_ARGS);

// What mica_armv6m_weights works on, in the order in which attention.S reads it.
typedef struct {
    int32_t *s, *end;
    int32_t most;
    uint32_t limit, fall, fall_shift;
    const uint16_t *table;
    uint32_t least;           // the weight of what is as far below `most` as limit
} mica_attend_weights_t;

void mica_armv6m_scores(int32_t *s, const int8_t *k, const int8_t *k_end, const uint32_t *x, uint32_t words,
    int32_t *most);
void mica_armv6m_more_scores(int32_t *s, const int8_t *k, const int8_t *k_end, const uint32_t *x, uint32_t words,
    int32_t *most);
uint32_t mica_armv6m_weights(const mica_attend_weights_t *args);
void mica_armv6m_values_8(int32_t *sums, const int32_t *w, const int32_t *w_end, const int8_t *v, int32_t rest);
void mica_armv6m_values_4(int32_t *sums, const int32_t *w, const int32_t *w_end, const int8_t *v, int32_t rest);
void mica_attend_s8_armv6m(const mica_attend_s8_t *p, MICA_KERNEL_ARGS);

// Sums of the columns of 1 to MICA_PICTURE_ROWS rows of words of two 565 pixels, FIELDS of one each (picture.c);
// _swapped: whose high bytes come first. At least one word.
#ifndef MICA_WITHOUT_PICTURE_LOOPS
#define MICA_PICTURE_ROWS (8)
#define MICA_PICTURE_MOST_TRIPLES (8)  // columns of a box of them
#define MICA_PICTURE_MOST_SINGLES (16)
void mica_armv6m_picture_words(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to,
    const uint32_t *to_end);
void mica_armv6m_picture_swapped(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to,
    const uint32_t *to_end);
// The same of four columns of bytes in a word: uint16 each.
void mica_armv6m_picture_bytes(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to,
    const uint32_t *to_end);
// Of every second byte, two a word: uint16 each; _high: of those with odd addresses.
void mica_armv6m_picture_pairs(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to,
    const uint32_t *to_end);
void mica_armv6m_picture_pairs_high(const uint8_t *row, uint32_t stride, uint32_t rows, uint32_t *to,
    const uint32_t *to_end);

// What mica_armv6m_picture_grey and _colours work on, in the order in which picture.S reads it: boxes of such columns,
// whose sums have room in one word. At least one box.
typedef struct {
    int8_t *out;
    uint32_t over, rest, of;  // a box is a column wider where over + rest, from box to box modulo `of`, passes that
    uint32_t thin;            // 2^24 / pixels of a box
    uint32_t columns_of_one;  // of a box that is not wider, 1 to 31, of triples to 7, of singles to 15
    uint32_t pixel;           // of colours: from one to the next in `out`
    uint32_t wide;            // as thin, of the wider boxes
    const int8_t *tables[3];
    uint32_t to[3];           // where colours lie in a pixel; of triples to grey their weights
    const int8_t *out_end;
    const void *columns;
} mica_picture_means_t;

// Each returns what `over` has become.
uint32_t mica_armv6m_picture_grey(const mica_picture_means_t *args);
uint32_t mica_armv6m_picture_colours(const mica_picture_means_t *args);
// The same of columns of bytes, three a pixel, in the order of tables and to.
uint32_t mica_armv6m_picture_triples_grey(const mica_picture_means_t *args);
uint32_t mica_armv6m_picture_triples_colours(const mica_picture_means_t *args);
// The same of one column of bytes a pixel, to grey.
uint32_t mica_armv6m_picture_singles(const mica_picture_means_t *args);

// What the following work on, in the order in which picture.S reads it: a row of boxes of 2 to 4 columns and 1 to 4
// rows, colours side by side.
typedef struct {
    int8_t *out;
    const int8_t *out_end;
    uint32_t step;         // a box is wide where this, summed up from 0, leaves 32 bits
    uint32_t stride;       // bytes of a row of the frame
    uint32_t back;         // from a box's last row to its first
    uint32_t what;         // 0: grey; 1: the first colour is out's first, 2: the last. YUV: begins in mid-word
    uint32_t narrow, wide; // columns
    uint32_t rows;
    uint32_t thin, thick;  // 2^24 / pixels of a narrow box, and of a wide one
    const int8_t *tables[3]; // of the colours in the frame's order; of grey the first
    uint32_t first, last;  // weights of a triple's first and last byte
    const uint8_t *pixels; // of YUV the word of the first
} mica_picture_boxes_t;

void mica_armv6m_picture_boxes_yuyv(const mica_picture_boxes_t *args);
void mica_armv6m_picture_boxes_uyvy(const mica_picture_boxes_t *args);
void mica_armv6m_picture_boxes_triples(const mica_picture_boxes_t *args);
void mica_armv6m_picture_boxes_words(const mica_picture_boxes_t *args);
void mica_armv6m_picture_boxes_swapped(const mica_picture_boxes_t *args);
// Two rows of 565, their low bytes first, from a word on, to half as many grey pixels, each the mean of four; _swapped:
// their high bytes first.
void mica_armv6m_picture_quarters(const uint8_t *row, uint32_t stride, int8_t *out, const int8_t *out_end,
    const int8_t *table);
void mica_armv6m_picture_quarters_swapped(const uint8_t *row, uint32_t stride, int8_t *out, const int8_t *out_end,
    const int8_t *table);
#define MICA_PICTURE_QUARTERS mica_armv6m_picture_quarters
#define MICA_PICTURE_QUARTERS_SWAPPED mica_armv6m_picture_quarters_swapped
#define MICA_PICTURE_BOXES_YUYV mica_armv6m_picture_boxes_yuyv
#define MICA_PICTURE_BOXES_UYVY mica_armv6m_picture_boxes_uyvy
#define MICA_PICTURE_BOXES_TRIPLES mica_armv6m_picture_boxes_triples
#define MICA_PICTURE_BOXES_WORDS mica_armv6m_picture_boxes_words
#define MICA_PICTURE_BOXES_SWAPPED mica_armv6m_picture_boxes_swapped
#define MICA_PICTURE_SINGLES mica_armv6m_picture_singles
#define MICA_PICTURE_PAIRS mica_armv6m_picture_pairs
#define MICA_PICTURE_PAIRS_HIGH mica_armv6m_picture_pairs_high
#define MICA_PICTURE_BYTES mica_armv6m_picture_bytes
#define MICA_PICTURE_TRIPLES_GREY mica_armv6m_picture_triples_grey
#define MICA_PICTURE_TRIPLES_COLOURS mica_armv6m_picture_triples_colours
#define MICA_PICTURE_WORDS mica_armv6m_picture_words
#define MICA_PICTURE_SWAPPED mica_armv6m_picture_swapped
#define MICA_PICTURE_GREY_MEANS mica_armv6m_picture_grey
#define MICA_PICTURE_COLOUR_MEANS mica_armv6m_picture_colours
#endif

#endif

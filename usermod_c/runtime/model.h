// mica: what the files of the runtime share. Nothing outside usermod_c/runtime includes this.
#ifndef MICA_MODEL_H
#define MICA_MODEL_H

#include "mica_kernels.h"
#include "mica_port.h"
#include "strip.h"

// ---- bytes: one at a time, so that any base works and no core faults on a misaligned word

static inline uint32_t mica_u16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t mica_u32(const uint8_t *p) {
    return mica_u16(p) | mica_u16(p + 2) << 16;
}

// ---- sections: where they are, once check.c has found their bounds sound

typedef struct {
    uint32_t offset;  // in the file; 0 where the section is absent
    uint32_t bytes;
    uint16_t record_bytes;
} mica_section_t;

typedef struct {
    const uint8_t *base;
    uint32_t file_bytes;
    mica_section_t s[MICA_MAX_KIND + 1];  // by kind; 0 is unused
} mica_file_t;

// Header and section table, and the CRC too if `crc`. Fills file and info; on failure *err.
mica_status_t mica_scan(const void *base, size_t len, bool crc, mica_file_t *file, mica_info_t *info,
    mica_error_t *err);

static inline const uint8_t *mica_record(const mica_file_t *f, uint32_t kind, uint32_t i) {
    return f->base + f->s[kind].offset + (size_t)i * f->s[kind].record_bytes;
}

static inline uint32_t mica_count(const mica_file_t *f, uint32_t kind) {
    return f->s[kind].offset ? f->s[kind].bytes / f->s[kind].record_bytes : 0;
}

// Offset in the file of a place inside it.
static inline uint32_t mica_at(const mica_file_t *f, const uint8_t *p) {
    return (uint32_t)(p - f->base);
}

// The string at an offset in STRINGS, or null. Inside the file and zero-terminated.
const char *mica_string(const mica_file_t *f, uint32_t offset);

// Bytes of one element; 0 where the type is unknown.
uint32_t mica_element_bytes(uint32_t dtype);

// Fills *err, leaving its step and tensor alone, and returns status.
mica_status_t mica_fail(mica_error_t *err, mica_status_t status, const char *what, uint32_t byte, uint32_t found,
    uint32_t expected);

// ---- the model in memory

typedef struct mica_step mica_step_t;
struct mica_step {
    uint32_t (*run)(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes);  // op.h
    union {
        #define MICA_PARAMETERS(op, name, NAME) mica_##name##_t op;
        MICA_OPERATORS(MICA_PARAMETERS)
        #undef MICA_PARAMETERS
    } p;
};

struct mica_model {
    uint8_t *arena, *state;
    void *scratch;        // the rest of the arena, or what mica_set_scratch() was given
    size_t scratch_bytes;
    mica_step_t *steps;   // info.n_steps of them, behind this structure; with strips one more, for the call at work
    mica_order_t *order;  // behind them; null where the file has no strips
    mica_info_t info;
    mica_file_t file;
};

// Tensor `id`, read and validated again: what it holds agrees with itself and with its space. Fills *err on failure.
mica_status_t mica_read_tensor(const mica_model_t *m, uint32_t id, mica_tensor_t *t, mica_error_t *err);

// ---- a step's record while it is being loaded. The first failure sticks in err->status; the calls after it do nothing
// and return zeros, so an operator's loader (op_<operator>.c) asks for what it needs and looks at the status once.

typedef struct {
    const mica_model_t *m;
    const uint8_t *record;
    mica_error_t *err;
    const char *what;    // why a kernel's check failed
    const void *const *blobs;  // where the constants lie; null: in the file
    bool fast;           // claims FAST; taken by mica_load_channels
    uint8_t layout;      // of the weights; taken by mica_load_layout
    uint32_t n_inputs;
    mica_tensor_t y;     // before x: a Cortex-M0+ addresses 124 bytes from a pointer on
    mica_tensor_t x[MICA_MAX_INPUTS];
} mica_step_record_t;

typedef struct {
    uint8_t least, most;  // inputs
    bool in_place;
    uint8_t x_type, last_type, y_type;  // last_type: of input `most`
} mica_kernel_facts_t;
bool mica_kernel_facts(uint32_t kernel, mica_kernel_facts_t *facts);  // false where the id is unknown
// Of a step outside of strips: no input is kept by rows, or shares bytes with the output unless it may be overwritten.
mica_status_t mica_load_inputs(mica_step_record_t *r, bool in_place);

typedef void (*mica_step_loader_t)(mica_step_record_t *r, mica_step_t *s);  // what goes wrong stays in r->err
mica_step_loader_t mica_step_loader(uint32_t kernel);  // null where this build does not have the kernel

static inline bool mica_load_ok(const mica_step_record_t *r) {
    return r->err->status == MICA_OK;
}

// record.c. `field` is the byte of the step's record that is wrong.
mica_status_t mica_record_fail(mica_step_record_t *r, mica_status_t status, const char *what, uint32_t field,
    uint32_t found, uint32_t expected);

// Takes the status of a kernel's check, which has left its reason in r->what. True when all is well so far.
bool mica_load_checked(mica_step_record_t *r, mica_status_t status);
// Fails with status and reason unless `sound`. True when all is well so far.
bool mica_load_require(mica_step_record_t *r, bool sound, mica_status_t status, const char *reason);
// Parameter i, which has to be in [low, high].
int32_t mica_load_param(mica_step_record_t *r, uint32_t i, int32_t low, int32_t high);
// Shapes of two inputs and the output.
void mica_load_broadcast(mica_step_record_t *r, mica_broadcast_t *shape);
// Shapes of the first input and the output, [1, H, W, C] each, and the parameters 0 to 7.
void mica_load_window(mica_step_record_t *r, mica_window_t *w);
// The factor of a requantisation, at i, and its shift behind it.
void mica_load_requant(mica_step_record_t *r, uint32_t i, int32_t *mult, int8_t *shift);
// The parameters act_min, at i, and act_max behind it.
void mica_load_act(mica_step_record_t *r, uint32_t i, int8_t *act_min, int8_t *act_max);
// The same of int16, act_min at most act_max; and that zero points of int16 tensors are 0. Both may be null.
void mica_load_wide(mica_step_record_t *r, uint32_t i, int16_t *act_min, int16_t *act_max);
// Constant i, `bytes` long and aligned in DATA.
const void *mica_load_blob(mica_step_record_t *r, uint32_t i, size_t bytes, uint32_t align);
uint32_t mica_load_blob_bytes(const mica_step_record_t *r, uint32_t i);
// The layout of the weights, one of those the kernel reads (a bit each). Comes before the weights' length is asked.
uint8_t mica_load_layout(mica_step_record_t *r, uint32_t layouts);
// weights, bias, mult, shift, which are blobs 0 to 3 of the kernels that have them.
void mica_load_channels(mica_step_record_t *r, mica_channels_t *ch, size_t weights_bytes, uint32_t n);
// Products of the dimensions of x[0]: before `axis`, of `axes` dimensions from there, behind them.
void mica_load_split(mica_step_record_t *r, uint32_t axis, uint32_t axes, uint32_t *outer, uint32_t *n,
    uint32_t *inner);
// The product of the dimensions of a sound or its rows, of which all but the last `inner` have to be 1; else 0.
uint32_t mica_load_sound(mica_step_record_t *r, const mica_tensor_t *t, uint32_t inner);
// The rows of y that are frames. A second input is the noise of y's bands, y's last four rows; else noise is null.
uint32_t mica_load_frames(mica_step_record_t *r, const int8_t **noise, int8_t *noise_zero);
// Fails unless the record asks for `least` bytes of scratch or more. True when all is well so far.
bool mica_load_scratch(mica_step_record_t *r, uint32_t least);
// Whether x[0] and y differ in their last dimension at most; the product of those before it, and both of these.
bool mica_load_rows(mica_step_record_t *r, uint32_t *rows, uint16_t *in_n, uint16_t *out_n);
// Whether x[0] and y have one shape; one scale and zero point.
bool mica_load_same_shape(mica_step_record_t *r);
bool mica_load_same_scale(mica_step_record_t *r);

// ---- strips (order.c, strip.c)

static inline const uint8_t *mica_order_record(const mica_model_t *m, uint32_t call) {
    return mica_record(&m->file, MICA_KIND_ORDER, call);
}

// Whether an input is read row by row: the same rows as the output's. Else it has to be one row for all of them.
static inline bool mica_rows_move(const mica_rows_t *x, const mica_rows_t *y) {
    return x->image && x->rows == y->rows;
}

// Of steps without a window: rows are made one by one, each from the same rows.
static inline bool mica_by_row(uint32_t kernel) {
    return kernel == MICA_KERNEL_ADD_S8 || kernel == MICA_KERNEL_MUL_S8 || kernel == MICA_KERNEL_MINMAX_S8
           || kernel == MICA_KERNEL_DIV_S8 || kernel == MICA_KERNEL_LUT_S8 || kernel == MICA_KERNEL_CONCAT_S8;
}

// ---- the vocabulary (tokens.c, encode.c, words.c)

typedef struct {
    const uint8_t *offsets, *list, *costs, *pieces;  // in the file; costs is null where there are none
    uint32_t count, listed, piece_bytes;
} mica_pieces_t;
// Where the tables of a section lie, as its record says now; false where they do not fill it.
bool mica_read_pieces(const mica_file_t *f, mica_pieces_t *p);
const uint8_t *mica_piece(const mica_pieces_t *p, uint32_t token, uint32_t *bytes);
// The listed token whose piece is these bytes, those of a and then those of b; MICA_NO_TOKEN where there is none.
uint32_t mica_find_piece(const mica_pieces_t *p, const uint8_t *a, uint32_t a_bytes, const uint8_t *b,
    uint32_t b_bytes);
uint32_t mica_longest_piece(const mica_pieces_t *p);  // bytes
// The kind of the character that begins n > 0 bytes, 0: white space; and its bytes.
uint32_t mica_kind(const uint8_t *s, uint32_t n, uint32_t flags, uint32_t *bytes);
// Makes a text plain, in its place; returns its bytes.
uint32_t mica_plain(const mica_pieces_t *p, uint32_t flags, uint8_t *s, uint32_t n);
// The tokens of n bytes of text by words. out: 3 * n bytes.
uint32_t mica_encode_words(const mica_pieces_t *p, const mica_tokens_t *t, const uint8_t *s, uint32_t n, uint16_t *out);
#ifdef MICA_WITHOUT_TOKENS
static inline mica_status_t mica_load_tokens(const mica_model_t *m, mica_error_t *err) {
    return m->file.s[MICA_KIND_TOKENS].offset == 0 ? MICA_OK
        : mica_fail(err, MICA_ERR_FEATURE, "this build has no language models", MICA_HEADER_FEATURES, 0, 0);
}
#else
// The section TOKENS, after IO.
mica_status_t mica_load_tokens(const mica_model_t *m, mica_error_t *err);
#endif

// ---- strips (strip.c)

// Bytes behind the steps that strips take: 0 where the file has none.
static inline size_t mica_order_bytes(const mica_file_t *file, const mica_info_t *info) {
    return file->s[MICA_KIND_ORDER].offset == 0 ? 0 : sizeof(mica_step_t) + sizeof(mica_order_t)
           + info->n_tensors * sizeof(mica_rows_t) + info->n_steps * sizeof(mica_strip_step_t);
}
#ifdef MICA_WITHOUT_STRIPS
static inline mica_status_t mica_load_order(mica_model_t *m, mica_error_t *err) {
    return m->file.s[MICA_KIND_ORDER].offset == 0 ? MICA_OK
        : mica_fail(err, MICA_ERR_FEATURE, "this build has no strips", MICA_HEADER_FEATURES, 0, 0);
}
#define mica_load_strip_step(r, i) ((void)(r), (void)(i), MICA_OK)
#define mica_replay_order(m, err) ((void)(m), (void)(err), MICA_OK)
#define mica_strip_rows(m, i) ((void)(m), (void)(i), 0u)
#define mica_strip_run(m, i, begin, end) ((void)(m), (void)(i), (void)(begin), (void)(end))
#else
// Sets up m->order, before the steps are loaded: which of them are in a strip.
mica_status_t mica_load_order(mica_model_t *m, mica_error_t *err);
// Step i, whose operands have been read, as part of its strip.
mica_status_t mica_load_strip_step(mica_step_record_t *r, uint32_t i);
// All calls of all strips, once: whether each reads and writes what is there.
mica_status_t mica_replay_order(const mica_model_t *m, mica_error_t *err);
// Of the strip whose first step is i: how many rows its steps make, and running [begin, end) of them.
uint32_t mica_strip_rows(const mica_model_t *m, uint32_t i);
void mica_strip_run(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end);
#endif

#endif

// mica: the engine's interface. Portable C99, knows nothing of MicroPython or CPython.
//
// Life of a model: mica_check() validates every byte of the header and the section table and says how much memory the
// rest needs; mica_load() validates every record and resolves each step into a function and its addresses; after that
// mica_run_step() runs plainly and cannot fail. The engine allocates nothing and keeps no global state: the caller owns
// the file, the arena and the memory of the model, and keeps all three in place while the model is in use.
//
// The file must not change while mica_check() and mica_load() read it. Everything that forms an address is copied by
// mica_load(), so a file that changes later can give wrong numbers but no access outside the file, arena and state.
#ifndef MICA_H
#define MICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mica_format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MICA_OK = 0,
    MICA_ERR_ARGUMENT,   // a call that contradicts itself: null pointer, buffer too short
    MICA_ERR_TRUNCATED,  // the file is shorter than it says
    MICA_ERR_MAGIC,      // not a .mica file
    MICA_ERR_VERSION,    // a newer format
    MICA_ERR_FEATURE,    // needs a feature this engine lacks
    MICA_ERR_CRC,        // damaged
    MICA_ERR_ALIGN,      // base, arena or an offset not aligned
    MICA_ERR_BOUNDS,     // an offset or length leaves its section, or the file
    MICA_ERR_TENSOR,     // a tensor record contradicts itself
    MICA_ERR_STEP,       // a step record contradicts itself or its tensors
    MICA_ERR_KERNEL,     // a kernel id this build does not have
    MICA_ERR_SHAPE,      // shapes and parameters of a kernel disagree
    MICA_ERR_RANGE,      // a constant outside the range that its kernel can compute without overflow
    MICA_ERR_ARENA,      // arena or state memory too small
    MICA_ERR_OVERLAP,    // file, arena and state overlap
    MICA_ERR_NAME,       // a name or text that no terminal should get
} mica_status_t;

// Where and why. `what` is a static string; step, tensor are -1 where they say nothing; byte is an offset in the file.
typedef struct {
    mica_status_t status;
    const char *what;
    uint32_t byte;
    int32_t step;
    int32_t tensor;
    uint32_t found;
    uint32_t expected;
} mica_error_t;

// What mica_check() learns from the header. Sizes in bytes.
typedef struct {
    uint32_t file_bytes;
    uint32_t crc32;          // of the file, as it was at load
    uint16_t version_major, version_minor;
    uint32_t kernels[4];
    uint32_t arena_bytes;    // activations
    uint32_t scratch_min;    // an arena of arena_bytes + scratch_min suffices,
    uint32_t scratch_want;   // one of arena_bytes + scratch_want is fastest
    uint32_t state_bytes;
    uint32_t n_tensors, n_steps, n_inputs, n_outputs;
    size_t model_bytes;      // memory for mica_load(), aligned as for a pointer
} mica_info_t;

// One tensor as the outside sees it. `name` is inside the file; dims beyond rank are 1.
typedef struct {
    uint8_t dtype;           // MICA_DTYPE_*
    uint8_t rank;
    uint8_t space;           // MICA_SPACE_*
    const char *name;
    uint32_t dims[MICA_MAX_RANK];
    float scale;
    int32_t zero_point;
    uint32_t bytes;          // in memory: of a tensor that is kept by rows (MICA_SPACE_ROWS), of those that are there
    void *data;              // in the arena, the state memory, or (read only) the file
} mica_tensor_t;

typedef struct mica_model mica_model_t;

// base: the file, aligned to MICA_ALIGN; len: bytes that may be read. Checks header, section table and CRC.
mica_status_t mica_check(const void *base, size_t len, mica_info_t *info, mica_error_t *err);

// mem: info.model_bytes of memory, where the model is built. arena: aligned to MICA_ALIGN, at least
// info.arena_bytes + info.scratch_min; more is used as scratch. state: info.state_bytes, aligned to MICA_ALIGN, null
// where there are none; zeroed here (each tensor to its zero point). Runs mica_check() itself.
mica_status_t mica_load(void *mem, size_t mem_bytes, const void *base, size_t len, void *arena, size_t arena_bytes,
    void *state, size_t state_bytes, mica_model_t **model, mica_error_t *err);

// The same with options, a sum of these:
enum {
    // The model also loads where this build lacks kernels of its steps: mica_step_has_kernel() is false for these, and
    // running one does nothing. Their names, tensors and scratch are checked like all; their parameters and constants
    // are not, which is up to whoever runs them.
    MICA_LOAD_MISSING_KERNELS = 1,
    // mica_check() has just returned MICA_OK for these bytes: the checksum is not computed a second time. Everything
    // else is checked as always, so that bytes which are others by now can give wrong numbers and nothing worse.
    MICA_LOAD_CHECKED = 2,
};
mica_status_t mica_load_with(uint32_t options, void *mem, size_t mem_bytes, const void *base, size_t len, void *arena,
    size_t arena_bytes, void *state, size_t state_bytes, mica_model_t **model, mica_error_t *err);
bool mica_step_has_kernel(const mica_model_t *m, uint32_t i);
// From now on steps use this memory as scratch in the place of the rest of the arena: aligned to MICA_ALIGN,
// info.scratch_min or more.
void mica_set_scratch(mica_model_t *m, void *scratch, size_t bytes);

const mica_info_t *mica_model_info(const mica_model_t *m);

// Runs step i of [0, n_steps). Allocates nothing, touches only arena, state and (reading) the file.
void mica_run_step(const mica_model_t *m, uint32_t i);
// Runs steps [begin, end), in order.
void mica_run_steps(const mica_model_t *m, uint32_t begin, uint32_t end);

// One run of a kernel of int8 on buffers, without a file and without scratch: what a step's record would say. y and x:
// data, bytes, rank, dims (1 beyond rank), zero point and scale; blobs: constants, each aligned as its elements.
// Everything is checked; *err says what is wrong, with the byte of the record.
typedef struct {
    uint32_t kernel, n_inputs;
    mica_tensor_t y, x[MICA_MAX_INPUTS];
    int32_t params[MICA_MAX_PARAMS];
    const void *blobs[MICA_MAX_BLOBS];
    uint32_t blob_bytes[MICA_MAX_BLOBS];
} mica_single_t;
mica_status_t mica_run_single(const mica_single_t *c, mica_error_t *err);  // not with MICA_WITHOUT_RAW

// Step i in pieces, for cores that work side by side: mica_run_part() once for each part of [0, parts), in any order or
// all at once, is mica_run_step(). Each takes a range of the output's rows and a share of the scratch. What a row is:
// of an image or a matrix, a row; of an image one row high under a window, such as a signal, a column; of a fully
// connected layer with one row of outputs, four of them; of what a table or a sum makes, an element.
// mica_step_has_parts() is false where there is too little to share: fewer rows than parts, and rows that cannot be cut
// further (a pointwise convolution's can, and the one of a global pool); or where a share is less than a step needs.
// mica_rows_have_parts(): of a range.
uint32_t mica_step_rows(const mica_model_t *m, uint32_t i);
// The same between two moments: rows [begin, end) of the output, begin < end <= mica_step_rows(). All rows, in any
// ranges and order, are mica_run_step(). Between two ranges nothing is kept outside of arena and state, and nothing in
// the scratch.
void mica_run_rows(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end);
// And both: a range of rows in parts.
void mica_run_rows_part(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end, uint32_t part, uint32_t parts);
bool mica_step_has_parts(const mica_model_t *m, uint32_t i, uint32_t parts);
bool mica_rows_have_parts(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end, uint32_t parts);
void mica_run_part(const mica_model_t *m, uint32_t i, uint32_t part, uint32_t parts);

// Strips: neighbouring steps that run together, some rows of each in turn, so that of the tensors between them only
// some rows are kept. A strip runs as its first step: mica_step_rows() of it are the rows of all its steps,
// mica_run_step() runs it whole, mica_run_rows() a range of its rows, which have to follow each other from 0 on. Its
// other steps have no rows, and do nothing. mica_strip_steps(): how many steps the strip has whose first step is i; 0
// inside of one; 1 where step i runs alone, which mica_is_strip() tells from a strip of one step.
bool mica_has_strips(const mica_model_t *m);
bool mica_in_strip(const mica_model_t *m, uint32_t i);
bool mica_is_strip(const mica_model_t *m, uint32_t i);
uint32_t mica_strip_steps(const mica_model_t *m, uint32_t i);
// The same call by call, for those who want to see each, or to run it in their own way: rows of one step.
typedef struct {
    uint32_t step;        // whose rows they are
    uint32_t piece;       // what mica_run_rows() and its like take for a step: the call as a step of its own ...
    uint32_t scale;       // ... with so many rows of it for each row of the output; 0 where this build lacks the kernel
    uint32_t row, rows;   // rows of the output that have been run, and that the call has in all
} mica_call_t;
// The call in which row `at` of strip i lies; false where the strip is not there, or at its end. 0 begins again.
bool mica_strip_next(const mica_model_t *m, uint32_t i, uint32_t at, mica_call_t *call);
void mica_strip_ran(const mica_model_t *m, uint32_t rows);  // so many more rows of that call have been made
// A fed input (`mica pack --feed`) exists only as the few rows that are being read. Right before a call that reads rows
// which are not there yet, the engine has them delivered: feed(context, begin, end, rows) fills rows [begin, end) of
// the input, quantised, end - begin times the bytes of a row. Within a run they follow each other from 0 on; rows that
// nothing reads may be left out at the end. It may leave by a jump: the run is over then, and the next one begins anew.
// Without a feed the rows are zero points.
typedef void (*mica_feed_t)(void *context, uint32_t begin, uint32_t end, void *rows);
void mica_set_feed(const mica_model_t *m, mica_feed_t feed, void *context);
uint32_t mica_fed_input(const mica_model_t *m);  // its place among the inputs; UINT32_MAX where none is fed
// Tensor id, data and bytes of the rows of it that the last call has made, or is to make.
bool mica_rows_made(const mica_model_t *m, uint32_t id, mica_tensor_t *out);
// Rows [first, have) of it are in memory, of which that call makes [made, have); all 0 where no strip makes it.
void mica_tensor_rows(const mica_model_t *m, uint32_t id, uint32_t *first, uint32_t *made, uint32_t *have);
#ifdef MICA_WITHOUT_STRIPS  // a file with strips is refused at load
#define mica_has_strips(m) ((void)(m), false)
#define mica_in_strip(m, i) ((void)(m), (void)(i), false)
#define mica_is_strip(m, i) ((void)(m), (void)(i), false)
#define mica_strip_steps(m, i) ((void)(m), (void)(i), 1u)
#define mica_fed_input(m) ((void)(m), UINT32_MAX)
#endif

// Step i as the outside sees it: kernel id, name in the file, MACs, scratch in use; tensor ids as in the file.
typedef struct {
    const char *name;
    uint16_t kernel;
    uint8_t flags;
    uint8_t layout;          // MICA_LAYOUT_*
    uint32_t macs;
    uint32_t scratch_min, scratch_want;
    uint16_t inputs[MICA_MAX_INPUTS], outputs[MICA_MAX_OUTPUTS];
} mica_step_info_t;
void mica_step_info(const mica_model_t *m, uint32_t i, mica_step_info_t *out);
// Parameter k < MICA_MAX_PARAMS of step i as the record has it. Constant k < MICA_MAX_BLOBS: its place in the file,
// aligned to MICA_BLOB_ALIGN, and *bytes, 0 where the step has none there; null where it does not lie inside DATA.
int32_t mica_step_param(const mica_model_t *m, uint32_t i, uint32_t k);
const void *mica_step_constant(const mica_model_t *m, uint32_t i, uint32_t k, uint32_t *bytes);
// Memory that makes its readers wait, such as flash behind a cache: who can bring constants before they are needed.
typedef struct mica_fetch {
    bool (*take)(const void *from, size_t bytes);  // whether it brings these bytes now; if so, it is taken until give()
    void (*begin)(void *to, const void *from, size_t bytes);  // starts to bring them: whole words, from and to words
    void (*wait)(void);  // until they are there
    void (*give)(void);  // after a wait
    const void *alone;  // from here on one core gets bytes in order sooner than two get a half each
    size_t alone_bytes;
} mica_fetch_t;
// Null at first: constants are read where they lie. Not while the model runs.
void mica_set_fetch(mica_model_t *m, const mica_fetch_t *fetch);

// From now on step i reads its constants at blobs[0 .. MICA_MAX_BLOBS - 1]: copies of those in the file, each aligned
// to MICA_ALIGN and none a null pointer; they must stay there as long as the model. Not while it runs. On failure
// nothing changes.
mica_status_t mica_move_constants(mica_model_t *m, uint32_t i, const void *const *blobs, mica_error_t *err);

// Tensor id of model input or output i; MICA_NO_TENSOR beyond the last.
uint16_t mica_input_id(const mica_model_t *m, uint32_t i);
uint16_t mica_output_id(const mica_model_t *m, uint32_t i);
// False where id is out of range. Safe on a file that changed after load: names and addresses stay inside.
bool mica_tensor(const mica_model_t *m, uint32_t id, mica_tensor_t *out);
// Value of a metadata key, or null.
const char *mica_metadata(const mica_model_t *m, const char *key);
// The vocabulary of a language model, or with the flag CLASSES of one that takes a text of so many tokens. They count
// from 0. MICA_NO_TOKEN where there is no such token, input or output.
typedef struct {
    uint32_t count;                           // tokens
    uint16_t begin, end;                      // tokens before a text and behind it
    uint16_t token, position, length, output; // places among the inputs; the last among the outputs
    uint16_t padding, unknown;                // with CLASSES the token behind a text, and that of what no piece spells
    uint32_t positions, window;               // how many positions there are, 0: no end; the most that length is given
    uint8_t method, flags;                    // MICA_TOKEN_METHOD_*, MICA_TOKEN_FLAG_*
} mica_tokens_t;
// False where the file has none.
bool mica_tokens(const mica_model_t *m, mica_tokens_t *out);
// The piece of a token, in the file; *bytes is 0 where there is no such token. Safe on a file that changed after load.
const uint8_t *mica_token_piece(const mica_model_t *m, uint32_t token, uint32_t *bytes);
// Tokens of a text of n bytes, at most 65534, without `begin`; returns how many. The flag SPACE is the caller's to
// heed; LOWER changes the text. work: mica_encode_bytes(n), aligned to 4, begins with the tokens
// afterwards. *failed: the byte that no piece spells, n where all went well.
static inline size_t mica_encode_bytes(size_t n) {
    return 8 * (n + 2);
}
uint32_t mica_encode(const mica_model_t *m, uint8_t *text, uint32_t n, void *work, uint32_t *failed);
// A token by the scores y[0..n), int8 of a scale: at temperature / 1000, 0 to 10000 (0: the largest), among the top_k
// largest, 1 to n. *state: of xorshift32, not 0; taken one step further unless the temperature is 0.
uint32_t mica_sample(const int8_t *y, uint32_t n, float scale, uint32_t temperature, uint32_t top_k, uint32_t *state);

// Golden vectors: number of them, and the bytes of vector i (inputs, then outputs; each padded to 4), or null.
uint32_t mica_golden_count(const mica_model_t *m);
uint32_t mica_golden_bytes(const mica_model_t *m);  // of one vector; 0 where a tensor is no longer sound
const uint8_t *mica_golden(const mica_model_t *m, uint32_t i);

// CRC-32 of each step's output in vector i: n_steps little-endian u32, aligned to 4. Null where the file has none.
const uint8_t *mica_golden_crcs(const mica_model_t *m, uint32_t i);

// CRC-32 (zlib) of n bytes, going on from crc (0 to begin).
uint32_t mica_crc32(uint32_t crc, const void *bytes, size_t n);
// The same of bytes [begin, end) of the model's file as it is now: over all of it, in as many slices as one likes, that
// is info.crc32 unless the file has changed since it was loaded.
uint32_t mica_file_crc(const mica_model_t *m, uint32_t crc, uint32_t begin, uint32_t end);

// Sets state tensors back to their zero points.
void mica_reset_state(const mica_model_t *m);

// Name of a kernel id ("conv2d_s8") or null when the id is unknown; whether this build can run it.
const char *mica_kernel_name(uint32_t id);
bool mica_kernel_present(uint32_t id);

// One line for people: what was wrong, where, what to do. Writes at most `bytes` including the zero; returns buf.
// base and len as given to the failing call (for names), or null.
char *mica_error_text(const mica_error_t *err, const void *base, size_t len, char *buf, size_t bytes);

#ifdef MICA_PACKED_TEXTS
// Where the build packs messages (native modules, toolchain/native_image.py): a byte from 0x80 on stands for two
// others. Writes one as it was, as much as there is room for, and a zero; returns its length. Only our own texts: a
// name out of a file is UTF-8.
extern const uint8_t mica_text_pairs[128][2];
size_t mica_text(const char *text, char *buf, size_t bytes);
#endif

// Instruction set the kernels of this build were written for: "ref", "armv6m", ...
const char *mica_isa(void);

#ifdef __cplusplus
}
#endif

#endif

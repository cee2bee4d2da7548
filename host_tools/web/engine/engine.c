// mica: the C engine for JavaScript. An instance of the module holds one model, in memory that is never given back: the
// instance goes as a whole. mica.mjs beside this file is the caller; it passes numbers and addresses, and reads texts
// and arrays in place.
#include <string.h>

#include "mica_kernels.h"
#include "picture.h"

#define API(name) __attribute__((export_name(#name))) name

extern uint8_t __heap_base;

static uintptr_t top;
static mica_model_t *model;
static mica_info_t info;
static uint8_t *frame; // all values of the fed input; null until they are written
static char text[300];
static uint32_t fields[16]; // what the last question was answered with

// n bytes, aligned to MICA_ALIGN; null where the browser gives no more.
void *API(take)(size_t n) {
    uintptr_t at = ((top ? top : (uintptr_t)&__heap_base) + MICA_ALIGN - 1) / MICA_ALIGN * MICA_ALIGN;
    const uintptr_t have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
    if (n > UINTPTR_MAX - 0xffff - at
        || (at + n > have && __builtin_wasm_memory_grow(0, (at + n - have + 0xffff) >> 16) == SIZE_MAX)) {
        return NULL;
    }
    top = at + n;
    return (void *)at;
}

static uint32_t elements(const mica_tensor_t *t) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < t->rank; ++i) {
        n *= t->dims[i];
    }
    return n;
}

// Rows of the fed input, out of what was written.
static void feed(void *context, uint32_t begin, uint32_t end, void *rows) {
    const mica_tensor_t *t = context;
    const uint32_t row = elements(t) / t->dims[1];
    if (frame != NULL) {
        memcpy(rows, frame + begin * row, (end - begin) * row);
    } else {
        memset(rows, (uint8_t)t->zero_point, (end - begin) * row);
    }
}

// Loads the file at `file`, which has to stay there. scratch: bytes, -1 for as many as the file wants. Null, or why
// not.
const char *API(load)(const void *file, size_t bytes, int32_t scratch) {
    static mica_tensor_t fed;
    mica_error_t err;
    if (mica_check(file, bytes, &info, &err) == MICA_OK) {
        const size_t arena_bytes = info.arena_bytes + (scratch < 0 ? info.scratch_want : (size_t)scratch);
        void *mem = take(info.model_bytes), *arena = take(arena_bytes),
            *state = info.state_bytes ? take(info.state_bytes) : NULL;
        if (mem == NULL || arena == NULL || (info.state_bytes && state == NULL)) {
            return "the browser has not enough memory for this model";
        }
        if (mica_load_with(MICA_LOAD_CHECKED, mem, info.model_bytes, file, bytes, arena, arena_bytes, state,
            info.state_bytes, &model, &err) == MICA_OK) {
            if (mica_fed_input(model) != UINT32_MAX) {
                mica_tensor(model, mica_input_id(model, mica_fed_input(model)), &fed);
                mica_set_feed(model, feed, &fed);
            }
            return NULL;
        }
    }
    return mica_error_text(&err, file, bytes, text, sizeof(text));
}

// Sizes and counts, in the order of SIZES in mica.mjs.
const uint32_t *API(sizes)(void) {
    const uint32_t all[] = {
        info.file_bytes, info.version_major, info.version_minor, info.arena_bytes, info.scratch_min, info.scratch_want,
        info.state_bytes, info.n_tensors, info.n_steps, info.n_inputs, info.n_outputs, mica_golden_count(model),
        mica_fed_input(model), mica_has_strips(model),
    };
    memcpy(fields, all, sizeof(all));
    return fields;
}

uint32_t API(input_id)(uint32_t i) {
    return mica_input_id(model, i);
}

uint32_t API(output_id)(uint32_t i) {
    return mica_output_id(model, i);
}

static const uint32_t *tell(const mica_tensor_t *t) {
    static const uint8_t sizes[] =
        { [MICA_DTYPE_INT8] = 1, [MICA_DTYPE_UINT8] = 1, [MICA_DTYPE_INT16] = 2, [MICA_DTYPE_INT32] = 4 };
    const bool real = t->dtype == MICA_DTYPE_FLOAT32;
    // What JavaScript calls an element: I or U for integers, F for floats; and its bytes.
    const uint32_t kind = real ? 'F' : t->dtype == MICA_DTYPE_UINT8 ? 'U' : 'I', size = real ? 4 : sizes[t->dtype];
    const uint32_t all[] = {
        (uint32_t)(uintptr_t)t->data, t->bytes, kind, size, t->rank, (uint32_t)t->zero_point,
        (uint32_t)(uintptr_t)t->name, t->space,
    };
    memcpy(fields, all, sizeof(all));
    memcpy(fields + 8, t->dims, sizeof(t->dims));
    memcpy(fields + 14, &t->scale, sizeof(t->scale));
    return fields;
}

// Address, bytes, kind and size of an element, rank, zero point, name, space, dims, scale; null beyond the last tensor.
const uint32_t *API(tensor)(uint32_t id) {
    mica_tensor_t t;
    return mica_tensor(model, id, &t) ? tell(&t) : NULL;
}

// The same of the rows that the last call of a strip has made.
const uint32_t *API(rows_made)(uint32_t id) {
    mica_tensor_t t;
    return mica_tensor(model, id, &t) && mica_rows_made(model, id, &t) ? tell(&t) : NULL;
}

// Kernel's name, name, MACs, scratch, flags, then the tensor ids of inputs and outputs.
const uint32_t *API(step)(uint32_t i) {
    mica_step_info_t s;
    mica_step_info(model, i, &s);
    const uint32_t all[] = { (uint32_t)(uintptr_t)mica_kernel_name(s.kernel), (uint32_t)(uintptr_t)s.name, s.macs,
        s.scratch_want, s.flags };
    memcpy(fields, all, sizeof(all));
    for (uint32_t k = 0; k < MICA_MAX_INPUTS; ++k) {
        fields[5 + k] = s.inputs[k];
        fields[5 + MICA_MAX_INPUTS + k] = s.outputs[k];
    }
    return fields;
}

void API(run)(void) {
    mica_run_steps(model, 0, info.n_steps);
}

void API(run_step)(uint32_t i) {
    mica_run_step(model, i);
}

uint32_t API(strip_steps)(uint32_t i) {
    return mica_strip_steps(model, i);
}

bool API(is_strip)(uint32_t i) {
    return mica_is_strip(model, i);
}

// Runs the call in which row `at` of strip i lies: its step, and the row behind it; null at the end.
const uint32_t *API(strip_call)(uint32_t i, uint32_t at) {
    mica_call_t call;
    if (at >= mica_step_rows(model, i) || !mica_strip_next(model, i, at, &call)) {
        return NULL;
    }
    fields[0] = call.step;
    fields[1] = at + call.rows - call.row;
    mica_run_rows(model, i, at, fields[1]);
    return fields;
}

void API(reset_state)(void) {
    mica_reset_state(model);
}

// Where the values of an input are written: the frame of a fed one.
static uint8_t *place(uint32_t i, mica_tensor_t *t) {
    mica_tensor(model, mica_input_id(model, i), t);
    if (i != mica_fed_input(model)) {
        return t->data;
    }
    if (frame == NULL) {
        frame = take(elements(t));
    }
    return frame;
}

uint8_t *API(input_place)(uint32_t i) {
    mica_tensor_t t;
    return place(i, &t);
}

// Input i from as many float32 numbers as it has elements, by the rule of binding/values.c. False where one is NaN.
bool API(write)(uint32_t i, const float *x) {
    mica_tensor_t t;
    uint8_t *to = place(i, &t);
    const int64_t low[] = { [MICA_DTYPE_INT8] = -128, [MICA_DTYPE_UINT8] = 0, [MICA_DTYPE_INT16] = INT16_MIN,
        [MICA_DTYPE_INT32] = INT32_MIN };
    const int64_t high[] = { [MICA_DTYPE_INT8] = 127, [MICA_DTYPE_UINT8] = 255, [MICA_DTYPE_INT16] = INT16_MAX,
        [MICA_DTYPE_INT32] = INT32_MAX };
    for (uint32_t k = 0, n = elements(&t); k < n; ++k) {
        if (t.dtype == MICA_DTYPE_FLOAT32) {
            memcpy(to + 4 * k, x + k, 4);
            continue;
        }
        const float v = __builtin_rintf(x[k] / t.scale); // half to even
        if (v != v) {
            return false;
        }
        int64_t q = (v < -0x1p30f ? -(1 << 30) : v > 0x1p30f ? 1 << 30 : (int32_t)v) + (int64_t)t.zero_point;
        q = q < low[t.dtype] ? low[t.dtype] : q > high[t.dtype] ? high[t.dtype] : q;
        if (t.dtype == MICA_DTYPE_INT32) {
            ((int32_t *)to)[k] = (int32_t)q;
        } else if (t.dtype == MICA_DTYPE_INT16) {
            ((int16_t *)to)[k] = (int16_t)q;
        } else {
            to[k] = (uint8_t)q;
        }
    }
    return true;
}

const char *API(metadata)(const char *key) {
    return mica_metadata(model, key);
}

// Golden vector i; its layers' checksums; the checksum of bytes.
const uint8_t *API(golden)(uint32_t i) {
    return mica_golden(model, i);
}

const uint8_t *API(golden_crcs)(uint32_t i) {
    return mica_golden_crcs(model, i);
}

uint32_t API(crc32)(uint32_t crc, const void *bytes, size_t n) {
    return mica_crc32(crc, bytes, n);
}

// The places of a language model among inputs and outputs, its tokens around a text, and its limits; else null.
const uint32_t *API(tokens)(void) {
    mica_tokens_t t;
    if (!mica_tokens(model, &t) || (t.flags & MICA_TOKEN_FLAG_CLASSES) != 0) {
        return NULL;
    }
    const uint32_t all[] = {
        t.count, t.begin, t.end, t.token, t.position, t.length, t.output, t.positions, t.window,
        t.flags & (MICA_TOKEN_FLAG_SPACE | MICA_TOKEN_FLAG_BARE),
    };
    memcpy(fields, all, sizeof(all));
    return fields;
}

// Tokens of a text, uint16 at the start of `work`, mica_encode_bytes(n) bytes. Fields: how many; the byte no piece
// spells.
size_t API(encode_bytes)(size_t n) {
    return mica_encode_bytes(n);
}

const uint32_t *API(encode)(uint8_t *of, uint32_t n, void *work) {
    fields[0] = mica_encode(model, of, n, work, fields + 1);
    return fields;
}

const uint32_t *API(token_piece)(uint32_t token) {
    fields[0] = (uint32_t)(uintptr_t)mica_token_piece(model, token, fields + 1);
    return fields;
}

// The picture of out_w x out_h pixels of a part of a frame of RGB bytes. area: 1 means of what a pixel covers, 0
// bilinear, -1: by the sizes. Null, or why not.
const char *API(see)(const uint8_t *rgb, uint32_t width, uint32_t height, uint32_t x, uint32_t y, uint32_t w,
    uint32_t h, uint32_t out_w,
    uint32_t out_h, uint32_t colours, bool bgr, bool planes, int32_t area, const int8_t *table, int8_t *out) {
    if (width > MICA_PICTURE_MAX_SIDE || height > MICA_PICTURE_MAX_SIDE || x > width || y > height || w > width
        || h > height) {
        return "the part lies outside of the picture, or the picture is too large";
    }
    const bool means = area < 0 ? w >= 2 * out_w && h >= 2 * out_h : area;
    const mica_picture_t p = {
        width, height, x, y, w, h, out_w, out_h, MICA_PICTURE_RGB888,
        (colours > 1 ? MICA_PICTURE_COLOUR : 0) | (bgr ? MICA_PICTURE_BGR : 0) | (planes ? MICA_PICTURE_PLANES : 0)
        | (means ? MICA_PICTURE_AREA : 0),
    };
    if (!mica_picture_check(&p)) {
        return "the part lies outside of the picture, or has too many pixels";
    }
    mica_picture_rows(&p, rgb, table, 0, out_h, out);
    return NULL;
}

// A token by the scores of `output`, as mica_sample() takes them; *state goes on.
uint32_t API(sample)(uint32_t output, uint32_t temperature, uint32_t top_k, uint32_t *state) {
    mica_tensor_t t;
    mica_tensor(model, mica_output_id(model, output), &t);
    return mica_sample(t.data, t.bytes, t.scale, temperature, top_k, state);
}

const char *API(isa)(void) {
    return mica_isa();
}

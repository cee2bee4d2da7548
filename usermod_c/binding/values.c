// Numbers of Python into tensors: real = scale * (q - zero_point). values_load.c has the way back.
//
// Quantising follows ONNX QuantizeLinear on float32: q = saturate(round_half_even(x / scale) + zero_point). Everything
// is done in float32, whatever size of float MicroPython was built with, so a board, the unix port and the host agree.

#include <string.h>

#include "py/binary.h"
#include "py/stackctrl.h"

#include "mp_mica.h"

char mp_mica_typecode(uint8_t dtype) {
    switch (dtype) {
        case MICA_DTYPE_INT8:
            return 'b';
        case MICA_DTYPE_UINT8:
            return 'B';
        case MICA_DTYPE_INT16:
            return 'h';
        case MICA_DTYPE_INT32:
            return 'i';
        default:
            return 'f';
    }
}

typedef struct {
    uint8_t *data;
    uint32_t n, filled; // elements
    uint32_t bytes;
    float scale;
    int32_t zero_point;
    int32_t min, max;
    char typecode;
    uint8_t size; // of an element
    uint8_t depth; // of lists in lists
    uint8_t odd; // MP_MICA_NAN, MP_MICA_INFINITY that it takes
    uint32_t far; // values that lie farther outside of the range than it is wide
} sink_t;

// __int__ and __float__ of instances are never called: such code could close the model, move its arena or
// empty the list that is being read. Nor does a native module ask (natmod/native.c).
#define IS_INT(obj) (mp_obj_is_int(obj) || mp_obj_is_bool(obj))
#if MICROPY_ENABLE_DYNRUNTIME
#define IS_NUMBER(obj) (true)
#else
#define IS_NUMBER(obj) (IS_INT(obj) || mp_obj_is_float(obj))
#endif

#define MAX_DEPTH (16) // above the rank of any tensor

static NORETURN void wrong_count(uint32_t expected, uint32_t given) {
    mp_raise_msg_varg(&mp_type_ValueError, given > expected ? MP_ERROR_TEXT("more than the %u values of this input")
        : MP_ERROR_TEXT("fewer than the %u values of this input: %u"), (unsigned)expected, (unsigned)given);
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

// The nearest integer, of two the even one; at most 2^30 in magnitude: beyond every range that matters, within int32_t.
// In integers, because without floating point in hardware each comparison or conversion is a call into a library.
static int32_t round_half_even(float v) {
    const uint32_t bits = bits_of(v);
    const int32_t exponent = (int32_t)(bits >> 23 & 255) - 127; // of the highest bit
    const uint32_t mantissa = (bits & 0x7fffff) | 0x800000; // v is that times 2^(exponent - 23)
    uint32_t q = 0; // below a half
    if (exponent >= 30) {
        q = 1u << 30;
    } else if (exponent >= 23) {
        q = mantissa << (exponent - 23);
    } else if (exponent >= -1) {
        const uint32_t down = (uint32_t)(23 - exponent), half = 1u << (down - 1), rest = mantissa & (2 * half - 1);
        q = mantissa >> down;
        q += rest > half || (rest == half && (q & 1));
    }
    return bits >> 31 ? -(int32_t)q : (int32_t)q;
}

// Raises ValueError for NaN where it is not taken, or is no number of the tensor's, and for infinity.
static void check_odd(const sink_t *s, uint32_t bits) {
    const bool nan = (bits & 0x7fffff) != 0;
    if (nan ? s->typecode != 'f' || !(s->odd & MP_MICA_NAN) : !(s->odd & MP_MICA_INFINITY)) {
        mp_raise_ValueError(MP_ERROR_TEXT("nan and infinity are no numbers for a model"));
    }
}

// What stands for x in a tensor of integers; counts in s->far.
static int32_t quantised(sink_t *s, float x) {
    const int64_t sum = (int64_t)round_half_even(x / s->scale) + s->zero_point;
    if (sum <= s->max && sum >= s->min) {
        return (int32_t)sum;
    }
    const int64_t width = (int64_t)s->max - s->min;
    s->far += sum > s->max + width || sum < s->min - width;
    return sum > s->max ? s->max : s->min;
}

static void put(sink_t *s, float x) {
    if (s->filled == s->n) {
        wrong_count(s->n, s->n + 1);
    }
    uint8_t *to = s->data + (size_t)s->filled * s->size;
    s->filled++;
    if ((bits_of(x) & 0x7f800000) == 0x7f800000) {
        check_odd(s, bits_of(x));
    }
    if (s->typecode == 'f') {
        memcpy(to, &x, sizeof(x));
        return;
    }
    const int32_t q = quantised(s, x);
    if (s->size == 1) {
        *to = (uint8_t)q;
    } else if (s->size == 2) {
        int16_t half = (int16_t)q;
        memcpy(to, &half, sizeof(half));
    } else {
        memcpy(to, &q, sizeof(q));
    }
}

// Bytes from which on all 256 values are divided first: a loop that looks at none of them again is then worth it.
#define MANY_BYTES 4096

// n bytes into elements of one byte: each value is divided once, where it is first seen.
static void put_few_bytes(sink_t *s, uint8_t *to, const uint8_t *from, size_t n) {
    uint16_t of[256]; // an element, and 256 more if it is far
    const uint16_t unseen = 0x7f7f;
    memset(of, unseen & 0xff, sizeof(of));
    uint32_t far = s->far;
    for (const uint8_t *end = from + n; from != end;) {
        const uint8_t byte = *from++;
        if (of[byte] == unseen) {
            s->far = 0;
            of[byte] = (uint8_t)quantised(s, (float)byte);
            of[byte] |= (uint16_t)(s->far << 8);
        }
        *to++ = (uint8_t)of[byte];
        far += of[byte] >> 8;
    }
    s->far = far;
}

// n elements out of a table of 256; 4 at a time keep the table's address and the counters in registers.
static MP_NOINLINE void look_up(uint8_t *to, const uint8_t *from, size_t n, const uint8_t *table) {
    const uint8_t *end = from + n, *end4 = from + (n & ~(size_t)3);
    for (; from != end4; from += 4, to += 4) {
        to[0] = table[from[0]];
        to[1] = table[from[1]];
        to[2] = table[from[2]];
        to[3] = table[from[3]];
    }
    while (from != end) {
        *to++ = table[*from++];
    }
}

// The same for many bytes, such as a picture's.
static void put_many_bytes(sink_t *s, uint8_t *to, const uint8_t *from, size_t n) {
    uint8_t of[256], is_far[256];
    const uint32_t far = s->far;
    for (uint32_t byte = 0; byte < 256; byte++) {
        const uint32_t before = s->far;
        of[byte] = (uint8_t)quantised(s, (float)byte);
        is_far[byte] = s->far != before;
    }
    const bool any = s->far != far;
    s->far = far;
    look_up(to, from, n, of);
    for (size_t i = 0; any && i < n; i++) {
        s->far += is_far[from[i]];
    }
}

static void put_bytes(sink_t *s, const uint8_t *from, size_t n) {
    if (n > s->n - s->filled) {
        wrong_count(s->n, s->n + 1);
    }
    (n < MANY_BYTES ? put_few_bytes : put_many_bytes)(s, s->data + s->filled, from, n);
    s->filled += (uint32_t)n;
}

// Raises TypeError where a buffer may be the tensor itself: of its signed type with a scale, or of all its bytes.
static void check_meaning(const mp_buffer_info_t *buf, const sink_t *s) {
    const bool own = buf->typecode == s->typecode && (s->typecode == 'b' || s->typecode == 'h')
        && (bits_of(s->scale) != 0x3f800000 || s->zero_point != 0); // without a scale both are the same
    const bool all = s->size > 1 && buf->len == s->bytes
        && (buf->typecode == 'B' || buf->typecode == BYTEARRAY_TYPECODE);
    if (own || all) {
        mp_raise_TypeError(MP_ERROR_TEXT(
            "this array may be numbers or the quantised tensor: give a list of numbers, or mica.Quantised(array)"));
    }
}

// Bytes of an element of a buffer. Raises TypeError where it has no numbers.
static size_t buffer_element(const mp_buffer_info_t *buf, const sink_t *s) {
    if (buf->typecode != BYTEARRAY_TYPECODE && (buf->typecode <= 0 || strchr("fdbBhHiIlLqQ", buf->typecode) == NULL)) {
        mp_raise_TypeError(MP_ERROR_TEXT("an array of numbers is expected"));
    }
    check_meaning(buf, s);
    return mp_binary_get_size('@', (char)buf->typecode, NULL);
}

// Elements [begin, end) of a buffer, whose typecode buffer_element() has seen.
static void put_elements(sink_t *s, const mp_buffer_info_t *buf, size_t begin, size_t end) {
    const uint8_t *bytes = buf->buf;
    if (buf->typecode == 'f') {
        for (size_t i = begin; i < end; i++) {
            float f;
            memcpy(&f, bytes + i * sizeof(f), sizeof(f));
            put(s, f);
        }
    } else if (buf->typecode == 'd') {
        for (size_t i = begin; i < end; i++) {
            double d; // as itself: made into an object it would need memory
            memcpy(&d, bytes + i * sizeof(d), sizeof(d));
            put(s, (float)d);
        }
    } else if ((buf->typecode == 'B' || buf->typecode == BYTEARRAY_TYPECODE) && s->size == 1) {
        put_bytes(s, bytes + begin, end - begin);
    } else if (buf->typecode == 'B' || buf->typecode == BYTEARRAY_TYPECODE) {
        for (size_t i = begin; i < end; i++) {
            put(s, (float)bytes[i]);
        }
    } else {
        for (size_t i = begin; i < end; i++) {
            put(s, (float)mp_obj_get_float(mp_binary_get_val_array((char)buf->typecode, buf->buf, i)));
        }
    }
}

static void put_any(sink_t *s, mp_obj_t values) {
    MP_STACK_CHECK();
    mp_float_t x;
    if (IS_NUMBER(values) && mp_obj_get_float_maybe(values, &x)) {
        put(s, (float)x);
        return;
    }
    if (mp_obj_is_type(values, &mp_type_list) || mp_obj_is_type(values, &mp_type_tuple)) {
        size_t n;
        mp_obj_t *items;
        mp_obj_get_array(values, &n, &items);
        if (s->depth == MAX_DEPTH) { // a list may hold itself
            mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("lists nested too deep"));
        }
        s->depth++;
        for (size_t i = 0; i < n; i++) {
            put_any(s, items[i]);
        }
        s->depth--;
        return;
    }
    mp_buffer_info_t buf;
    if (mp_obj_is_str(values) || mp_obj_is_type(values, &mp_mica_quantised_type)
        || !mp_get_buffer(values, &buf, MP_BUFFER_READ)) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("numbers, lists, tuples or buffers are expected, not %s"),
            mp_obj_get_type_str(values));
    }
    put_elements(s, &buf, 0, buf.len / buffer_element(&buf, s));
}

mp_int_t mp_mica_get_int(mp_obj_t obj) {
    if (!IS_INT(obj)) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("can't convert %s to int"), mp_obj_get_type_str(obj));
    }
    return mp_obj_get_int(obj);
}

static sink_t sink_of(const mica_tensor_t *t) {
    sink_t s = {
        .data = t->data, .bytes = t->bytes, .scale = t->scale, .zero_point = t->zero_point,
        .typecode = mp_mica_typecode(t->dtype), .size = 4, .min = INT32_MIN, .max = INT32_MAX,
    };
    switch (s.typecode) {
        case 'b':
            s.size = 1;
            s.min = -128;
            s.max = 127;
            break;
        case 'B':
            s.size = 1;
            s.min = 0;
            s.max = 255;
            break;
        case 'h':
            s.size = 2;
            s.min = INT16_MIN;
            s.max = INT16_MAX;
            break;
    }
    s.n = s.bytes / s.size;
    return s;
}

void mp_mica_check_length(const mp_buffer_info_t *buf, size_t size, uint32_t n) {
    if (buf->len != n * size) {
        mp_raise_msg_varg(&mp_type_ValueError,
            MP_ERROR_TEXT("a buffer of %u bytes is expected for %u values, not of %u"),
            (unsigned)(n * size), (unsigned)n, (unsigned)buf->len);
    }
}

// Quantised(buffer): the tensor's own integers, for whatever takes an input's values.
typedef struct {
    mp_obj_base_t base;
    mp_obj_t buffer;
} quantised_t;

static mp_obj_t quantised_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw, const mp_obj_t *args) {
    mp_arg_check_num(n_args, n_kw, 1, 1, false);
    mp_buffer_info_t buf;
    mp_get_buffer_raise(args[0], &buf, MP_BUFFER_READ);
    quantised_t *self = mp_obj_malloc(quantised_t, type);
    self->buffer = args[0];
    return MP_OBJ_FROM_PTR(self);
}

static mp_int_t quantised_get_buffer(mp_obj_t self_in, mp_buffer_info_t *buf, mp_uint_t flags) {
    return mp_get_buffer(((quantised_t *)MP_OBJ_TO_PTR(self_in))->buffer, buf, flags) ? 0 : 1;
}

MP_DEFINE_CONST_OBJ_TYPE(mp_mica_quantised_type, MP_QSTR_Quantised, MP_TYPE_FLAG_NONE,
    make_new, quantised_make_new, buffer, quantised_get_buffer);

// Its n elements; null where the values are numbers. Raises TypeError and ValueError.
static const uint8_t *quantised_of(const sink_t *s, mp_obj_t values, uint32_t n) {
    if (!mp_obj_is_type(values, &mp_mica_quantised_type)) {
        return NULL;
    }
    mp_buffer_info_t buf;
    mp_get_buffer_raise(values, &buf, MP_BUFFER_READ);
    const bool plain = buf.typecode == 'b' || buf.typecode == 'B' || buf.typecode == BYTEARRAY_TYPECODE;
    if (!plain && buf.typecode != s->typecode) {
        mp_raise_msg_varg(&mp_type_TypeError,
            MP_ERROR_TEXT("Quantised: a buffer of '%c' or bytes is expected, not of '%c'"), s->typecode, buf.typecode);
    }
    mp_mica_check_length(&buf, s->size, n);
    return buf.buf;
}

uint32_t mp_mica_values_store(const mica_tensor_t *t, mp_obj_t values, uint8_t odd) {
    sink_t s = sink_of(t);
    s.odd = odd;
    const uint8_t *own = quantised_of(&s, values, s.n);
    if (own != NULL) {
        memmove(s.data, own, s.bytes); // may be a view of this very tensor
        return 0;
    }
    put_any(&s, values);
    if (s.filled != s.n) {
        wrong_count(s.n, s.filled);
    }
    return s.far;
}

// Like quantised_of; where the values are numbers, *buf is all of them.
static const uint8_t *frame_of(const sink_t *s, mp_obj_t buffer, uint32_t n, mp_buffer_info_t *buf) {
    const uint8_t *own = quantised_of(s, buffer, n);
    if (own != NULL) {
        return own;
    }
    if (mp_obj_is_str(buffer) || !mp_get_buffer(buffer, buf, MP_BUFFER_READ)) {
        mp_raise_msg_varg(&mp_type_TypeError,
            MP_ERROR_TEXT("a fed input takes a buffer of all its values or a function, not %s"),
            mp_obj_get_type_str(buffer));
    }
    mp_mica_check_length(buf, buffer_element(buf, s), n);
    return NULL;
}

void mp_mica_values_check(const mica_tensor_t *t, mp_obj_t buffer, uint32_t n) {
    sink_t s = sink_of(t);
    mp_buffer_info_t buf;
    frame_of(&s, buffer, n, &buf);
}

void mp_mica_values_store_part(const mica_tensor_t *t, mp_obj_t buffer, uint32_t n, uint32_t at) {
    sink_t s = sink_of(t);
    mp_buffer_info_t buf;
    const uint8_t *own = frame_of(&s, buffer, n, &buf);
    if (at > n || s.n > n - at) { // only in a file that has changed
        wrong_count(n, n + 1);
    }
    if (own != NULL) {
        memmove(s.data, own + (size_t)at * s.size, s.bytes);
    } else {
        put_elements(&s, &buf, at, at + s.n);
    }
}

// A native module's side of MicroPython: what native.h promises. It knows nothing of the binding, which calls it.
#include <string.h>

#include "native.h"
#include "../binding/heap.h"
#include "mica.h"

mp_native_types_t mp_native_types;

// ---- Names ----

uint8_t mp_native_slots[NATIVE_SLOTS];

qstr mp_native_qstr(qstr q) {
    return q < NATIVE_NAMES ? q : mp_native_qstr_table[q - NATIVE_NAMES];
}

qstr mp_native_qstr_back(qstr q) {
    for (size_t i = q % NATIVE_SLOTS; mp_native_slots[i] != 0; i = (i + 1) % NATIVE_SLOTS) {
        size_t place = mp_native_slots[i] - 1u;
        if (mp_native_qstr_table[place] == q) {
            return NATIVE_NAMES + place;
        }
    }
    return q < NATIVE_NAMES ? q : 0;
}

mp_obj_t mp_native_name(qstr q) {
    return mp_fun_table.native_to_obj(mp_native_qstr(q), MP_NATIVE_TYPE_QSTR);
}

void mp_native_arg_parse_all(size_t n_pos, const mp_obj_t *pos, mp_map_t *kws, size_t n_allowed,
    const mp_arg_t *allowed, mp_arg_val_t *out_vals) {
    mp_arg_t named[24];
    if (n_allowed > MP_ARRAY_SIZE(named)) {
        mp_raise_msg(&mp_type_RuntimeError, "native.c: too many arguments");
    }
    for (size_t i = 0; i < n_allowed; i++) {
        named[i] = allowed[i];
        named[i].qst = (uint16_t)mp_native_qstr(allowed[i].qst);
        if ((named[i].flags & MP_ARG_KIND_MASK) == MP_ARG_OBJ && named[i].defval.u_rom_obj == MP_ROM_NONE) {
            named[i].defval.u_rom_obj = mp_const_none;
        }
    }
    mp_fun_table.arg_parse_all(n_pos, pos, kws, n_allowed, named, out_vals);
}

// The tuple's own block has the numbers of its names, behind the items: no constant table could.
mp_obj_t mp_native_new_attrtuple(const qstr *fields, size_t n, const mp_obj_t *items) {
    mp_obj_tuple_t *self = MP_OBJ_TO_PTR(mp_obj_new_tuple(n + 1 + n, NULL));
    qstr *names = (qstr *)&self->items[n + 1];
    for (size_t i = 0; i < n; i++) {
        self->items[i] = items[i];
        names[i] = mp_native_qstr(fields[i]);
    }
    self->items[n] = MP_OBJ_FROM_PTR(names);
    self->len = n;
    self->base.type = mp_native_types.attrtuple;
    return MP_OBJ_FROM_PTR(self);
}

// ---- Numbers ----

mp_int_t mp_native_get_int(mp_const_obj_t obj) {
    if (mp_obj_is_small_int(obj)) {
        return MP_OBJ_SMALL_INT_VALUE(obj);
    }
    mp_int_t value = (mp_int_t)mp_fun_table.native_from_obj((mp_obj_t)obj, MP_NATIVE_TYPE_INT);
    if (mp_obj_is_exact_type(obj, &mp_type_int)
        && mp_binary_op(MP_BINARY_OP_EQUAL, mp_obj_new_int(value), (mp_obj_t)obj) != mp_const_true) {
        mp_raise_msg(&mp_type_OverflowError, MP_ERROR_TEXT("overflow converting long int to machine word"));
    }
    return value;
}

bool mp_native_get_float_maybe(mp_obj_t obj, mp_float_t *value) {
    if (!mp_obj_is_small_int(obj)) {
        const mp_obj_type_t *type = mp_obj_get_type(obj);
        if (type != mp_native_types.float_ && type != mp_native_types.int_ && type != &mp_type_bool) {
            return false;
        }
    }
    *value = mp_obj_get_float(obj);
    return true;
}

mp_obj_t mp_native_new_int_from_ull(unsigned long long value) {
    mp_obj_t low = mp_obj_new_int_from_uint((mp_uint_t)value);
    if (sizeof(value) == sizeof(mp_uint_t) || value >> 32 == 0) {
        return low;
    }
    mp_obj_t high = mp_obj_new_int_from_uint((mp_uint_t)(value >> 32));
    high = mp_binary_op(MP_BINARY_OP_LSHIFT, high, MP_OBJ_NEW_SMALL_INT(32));
    return mp_binary_op(MP_BINARY_OP_OR, high, low);
}

// ---- Texts ----

const char *mp_native_get_str(mp_obj_t obj) {
    mp_buffer_info_t buf;
    if (!mp_obj_is_str(obj) && !mp_obj_is_exact_type(obj, &mp_type_bytes)) {
        mp_raise_TypeError(MP_ERROR_TEXT("a str is expected"));
    }
    mp_get_buffer_raise(obj, &buf, MP_BUFFER_READ); // ends in a zero: both kinds keep one
    return buf.buf;
}

// ---- Calls ----

mp_obj_t mp_native_callable;

bool mp_native_is_callable(mp_obj_t obj) {
    return mp_call_function_n_kw(mp_native_callable, 1, 0, &obj) == mp_const_true;
}

// ---- Exceptions ----

typedef struct {
    char text[160];
    size_t len;
} line_t;

static void print_to_line(void *data, const char *text, size_t len) {
    line_t *line = data;
    for (size_t i = 0; i < len && line->len < sizeof(line->text); i++) {
        line->text[line->len++] = text[i];
    }
}

#ifdef MICA_PACKED_TEXTS
char mp_native_text[112]; // for a heap that is full, or locked

void mp_native_raise_msg(const mp_obj_type_t *type, const char *text) {
    line_t line;
    size_t n = mica_text(text, line.text, sizeof(line.text));
    char *kept = m_malloc_maybe(n + 1);
    if (kept == NULL) {
        kept = mp_native_text;
        n = n < sizeof(mp_native_text) ? n : sizeof(mp_native_text) - 1;
    }
    memcpy(kept, line.text, n);
    kept[n] = 0;
    mp_fun_table.raise_msg(type, kept);
}
#else
void mp_native_raise_msg(const mp_obj_type_t *type, const char *text) {
    mp_fun_table.raise_msg(type, text);
}
#endif

void mp_native_raise_msg_varg(const mp_obj_type_t *type, const char *format, ...) {
    line_t line;
    line.len = 0;
    const mp_print_t print = { &line, print_to_line };
    va_list args;
    va_start(args, format);
    #ifdef MICA_PACKED_TEXTS
    char whole[160];
    mica_text(format, whole, sizeof(whole));
    format = whole;
    #endif
    mp_vprintf(&print, format, args);
    va_end(args);
    nlr_raise(mp_obj_new_exception_arg1(type, mp_obj_new_str(line.text, line.len)));
}

// ---- Memory ----

void *mp_native_malloc0(size_t n) {
    return mp_fun_table.memset_(m_malloc(n), 0, n);
}

// The heap lies somewhere within its own size of any block of it. That is all that can be found out, so what is near
// counts as on the heap: a view then keeps one pointer more than it must, or a file is copied that could stay.
uintptr_t mp_native_heap_start, mp_native_heap_end;

bool mp_mica_on_heap(const void *p) {
    return (uintptr_t)p >= mp_native_heap_start && (uintptr_t)p < mp_native_heap_end;
}

// Nothing tells the first byte of a block from any other. Bytes own the block that they point to; a memoryview may be
// of a file in a ROMFS that lies on the heap.
void *mp_mica_block_of(mp_obj_t obj, void *head) {
    return mp_obj_is_type(obj, &mp_type_memoryview) ? NULL : head;
}

// ---- Threads ----

volatile uint32_t mp_native_lock_word;
volatile uint32_t *mp_native_lock;

// _mica.learn(): heads that learn. firmware/mica/learn.py is the face for people.

#include <string.h>

#include "mp_mica.h"
#include "learn.h"

#ifndef MICA_WITHOUT_LEARN

enum { TEACH, FIT, JUDGE };

static void *get_bytes(mp_obj_t obj, size_t bytes, mp_uint_t flags) {
    mp_buffer_info_t buf;
    mp_get_buffer_raise(obj, &buf, flags);
    if (buf.len < bytes || (flags & MP_BUFFER_WRITE && (uintptr_t)buf.buf % 4 != 0)) {
        mp_raise_ValueError(MP_ERROR_TEXT("learn: a buffer of another size"));
    }
    return buf.buf;
}

// learn(op, numbers, work, blocks, arg): numbers as array('i') in the order of mica_learn_t. The example lies in
// `work`. Allocates nothing.
static mp_obj_t module_learn(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    mica_learn_t p;
    int8_t *numbers = get_bytes(args[1], MICA_LEARN_NUMBERS_BYTES, MP_BUFFER_RW);
    memcpy(&p, numbers, MICA_LEARN_NUMBERS_BYTES);
    size_t classes;
    mp_obj_t *items;
    mp_obj_get_array(args[3], &classes, &items);
    const mp_int_t op = mp_mica_get_int(args[0]), arg = mp_mica_get_int(args[4]);
    if (!mica_learn_check(&p) || classes > MICA_LEARN_MAX_CLASSES || op < TEACH || op > JUDGE || arg < 0
        || (op != FIT && (size_t)arg >= classes)) {
        mp_raise_ValueError(MP_ERROR_TEXT("learn: numbers that are no head"));
    }
    p.classes = (uint32_t)classes;
    for (size_t i = 0; i < classes; i++) {
        const mica_learn_class_t *c = get_bytes(items[i], sizeof(*c), MP_BUFFER_RW);
        const uint32_t one_more = op == TEACH && i == (size_t)arg && c->count < (uint32_t)p.keep;
        p.blocks[i] = get_bytes(items[i], mica_learn_block_bytes(&p, c->count + one_more), MP_BUFFER_RW);
    }
    p.work = get_bytes(args[2], (p.kind == MICA_LEARN_SOFTMAX ? 3 : 2) * (size_t)p.width, MP_BUFFER_RW);
    if (op == FIT) {
        return mp_obj_new_bool(mica_learn_fit(&p, (uint32_t)arg));
    }
    const int8_t *x = p.work + p.width;
    if (op == TEACH) {
        mica_learn_teach(&p, (uint32_t)arg, x);
    } else {
        mica_learn_judge(&p, x);
        memcpy(numbers, &p, MICA_LEARN_NUMBERS_BYTES);
    }
    return mp_const_false;
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_learn_obj, 5, 5, module_learn);

#endif

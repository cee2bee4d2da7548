// _mica.see(): frames of cameras as rows of a picture. firmware/mica/pictures.py is the face for people.

#include <string.h>

#include "mp_mica.h"
#include "picture.h"

#ifndef MICA_WITHOUT_PICTURE

static void get_bytes(mp_obj_t obj, mp_buffer_info_t *buf, mp_uint_t flags) {
    if (mp_obj_is_str(obj) || !mp_get_buffer(obj, buf, flags)) {
        mp_raise_TypeError(flags & MP_BUFFER_WRITE ? MP_ERROR_TEXT("see: a writable buffer is expected")
            : MP_ERROR_TEXT("see: a frame is a buffer of bytes"));
    }
}

// see(numbers, frame, table, begin, end, out): numbers as array('H') in the order of mica_picture_t; allocates nothing.
static mp_obj_t module_see(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    mp_buffer_info_t numbers, frame, table, out;
    get_bytes(args[0], &numbers, MP_BUFFER_READ);
    get_bytes(args[1], &frame, MP_BUFFER_READ);
    get_bytes(args[2], &table, MP_BUFFER_READ);
    get_bytes(args[5], &out, MP_BUFFER_WRITE);
    mica_picture_t p;
    memcpy(&p, numbers.buf, numbers.len == sizeof(p) ? sizeof(p) : 0);
    if (numbers.len != sizeof(p) || !mica_picture_check(&p)) {
        mp_raise_ValueError(MP_ERROR_TEXT("see: numbers that are no picture"));
    }
    if (frame.len != mica_picture_bytes(&p)) {
        mp_raise_msg_varg(&mp_type_ValueError,
            MP_ERROR_TEXT("see: the frame has %u bytes; %u x %u pixels of its format have %u"),
            (unsigned)frame.len, (unsigned)p.width, (unsigned)p.height, (unsigned)mica_picture_bytes(&p));
    }
    const mp_int_t begin = mp_mica_get_int(args[3]), end = mp_mica_get_int(args[4]);
    const size_t channels = p.flags & MICA_PICTURE_COLOUR ? 3 : 1;
    if (begin < 0 || end < begin || end > p.out_h || (p.flags & MICA_PICTURE_PLANES && (begin != 0 || end != p.out_h))
        || table.len != 256 * channels || out.len != (size_t)(end - begin) * p.out_w * channels) {
        mp_raise_ValueError(MP_ERROR_TEXT("see: rows, a table or an output of another size"));
    }
    mica_picture_rows(&p, frame.buf, table.buf, (uint32_t)begin, (uint32_t)end, out.buf);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_see_obj, 6, 6, module_see);

#endif

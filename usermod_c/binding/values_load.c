// Tensors as numbers of Python, in float32: real = scale * (q - zero_point).
#include <string.h>

#include "py/binary.h"
#include "py/objlist.h"

#include "mp_mica.h"

static float value_at(const mica_tensor_t *t, char typecode, uint32_t i) {
    int32_t q;
    if (typecode == 'f') {
        float f;
        memcpy(&f, (const uint8_t *)t->data + (size_t)i * 4, sizeof(f));
        return f;
    } else if (typecode == 'i') {
        memcpy(&q, (const uint8_t *)t->data + (size_t)i * 4, sizeof(q));
        return t->scale * (float)((int64_t)q - t->zero_point);
    } else if (typecode == 'h') {
        int16_t half;
        memcpy(&half, (const uint8_t *)t->data + (size_t)i * 2, sizeof(half));
        q = half;
    } else {
        q = typecode == 'b' ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
    }
    return t->scale * (float)(q - t->zero_point); // narrow types have narrow zero points
}

// Null where there is no memory for them: then each value is made by itself.
static mp_mica_floats_t *floats_of(const mica_tensor_t *t, mp_mica_floats_t **kept) {
    mp_mica_floats_t *f = *kept;
    if (f == NULL) {
        f = m_malloc_maybe(sizeof(*f));
    } else if (memcmp(&f->scale, &t->scale, sizeof(f->scale)) == 0 && f->zero_point == t->zero_point) {
        return f;
    }
    if (f != NULL) {
        memset(f, 0, sizeof(*f));
        f->scale = t->scale;
        f->zero_point = t->zero_point;
        *kept = f;
    }
    return f;
}

// A float never changes and a byte has few values: lists share equal ones, which spares most of the heap's work.
static void load_bytes(const mica_tensor_t *t, uint32_t n, mp_mica_floats_t *f, mp_obj_t *items) {
    for (uint32_t i = 0; i < n; i++) {
        mp_obj_t *made = &f->made[((const uint8_t *)t->data)[i]];
        if (*made == MP_OBJ_NULL) {
            *made = mp_obj_new_float((mp_float_t)value_at(t, 'b', i));
        }
        items[i] = *made;
    }
}

#define MANY (64) // values, of which a good part are equal

mp_obj_t mp_mica_values_load(const mica_tensor_t *t, mp_mica_floats_t **kept) {
    const char typecode = mp_mica_typecode(t->dtype);
    uint32_t n = t->bytes / (uint32_t)mp_binary_get_size('@', typecode, NULL);
    mp_obj_list_t *list = MP_OBJ_TO_PTR(mp_obj_new_list(n, NULL));
    for (uint32_t i = 0; i < n; i++) {
        list->items[i] = MP_OBJ_NEW_SMALL_INT(0); // new_list leaves them empty, and an allocation below may look
    }
    mp_mica_floats_t *f = kept != NULL && n >= MANY && typecode == 'b' ? floats_of(t, kept) : NULL;
    if (f != NULL) {
        load_bytes(t, n, f, list->items);
        return MP_OBJ_FROM_PTR(list);
    }
    for (uint32_t i = 0; i < n; i++) {
        list->items[i] = mp_obj_new_float((mp_float_t)value_at(t, typecode, i));
    }
    return MP_OBJ_FROM_PTR(list);
}

// A buffer of floats takes real numbers; one of the tensor's own type, or of bytes, the tensor as it is.
void mp_mica_values_load_into(const mica_tensor_t *t, mp_obj_t buffer) {
    const char typecode = mp_mica_typecode(t->dtype);
    mp_buffer_info_t buf;
    mp_get_buffer_raise(buffer, &buf, MP_BUFFER_WRITE);
    const size_t size = mp_binary_get_size('@', typecode, NULL);
    const uint32_t n = t->bytes / (uint32_t)size;
    const bool floats = buf.typecode == 'f' || buf.typecode == 'd';
    if (!floats && buf.typecode != typecode && buf.typecode != 'B' && buf.typecode != BYTEARRAY_TYPECODE) {
        mp_raise_msg_varg(&mp_type_TypeError,
            MP_ERROR_TEXT("a buffer of 'f', 'd', '%c' or bytes is expected, not '%c'"), typecode, buf.typecode);
    }
    mp_mica_check_length(&buf, buf.typecode == 'f' ? sizeof(float) : floats ? sizeof(double) : size, n);
    if (!floats) {
        memmove(buf.buf, t->data, buf.len);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const float f = value_at(t, typecode, i);
        if (buf.typecode == 'f') {
            memcpy((uint8_t *)buf.buf + (size_t)i * sizeof(f), &f, sizeof(f));
        } else {
            const double d = (double)f;
            memcpy((uint8_t *)buf.buf + (size_t)i * sizeof(d), &d, sizeof(d));
        }
    }
}

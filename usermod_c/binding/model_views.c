// What the files of the model share: an index, a tensor, a view of memory that keeps its block alive.

#include "py/objarray.h"

#include "model.h"

mp_mica_model_t *mp_mica_model_of(mp_obj_t self_in) {
    mp_mica_model_t *self = MP_OBJ_TO_PTR(self_in);
    if (self->engine == NULL) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the model was closed by deinit()"));
    }
    return self;
}

// A caller's buffer may have been extended, and its old memory freed, since the engine resolved its addresses.
void mp_mica_check_arena(const mp_mica_model_t *self, mp_mica_span_t *span) {
    mp_mica_arena_span(self->arena, span);
    if (span->data != self->arena_data || span->bytes < self->arena_bytes) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("the arena's buffer moved or shrank: load the model again"));
    }
}

mp_mica_model_t *mp_mica_model_in_place(mp_obj_t self_in) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mp_mica_span_t span;
    mp_mica_check_arena(self, &span);
    return self;
}

// The same, to write a tensor: not into an arena in which another model is running.
mp_mica_model_t *mp_mica_model_to_write(mp_obj_t self_in) {
    mp_mica_model_t *self = mp_mica_model_of(self_in);
    mp_mica_span_t span;
    mp_mica_check_arena(self, &span);
    const mp_mica_control_t *c = span.control;
    if (c != NULL && mp_mica_arena_owner(&span) != 0 && c->busy != 0 && c->busy != self->id) {
        mp_raise_msg(&mp_type_RuntimeError,
            MP_ERROR_TEXT("arena is busy: a run in it has not ended; its model's stop() gives it up"));
    }
    return self;
}

uint32_t mp_mica_index_of(mp_obj_t index, uint32_t n, const char *what) {
    mp_int_t i = mp_mica_get_int(index);
    if (i < 0 || (mp_uint_t)i >= n) {
        mp_raise_msg_varg(&mp_type_IndexError, MP_ERROR_TEXT("%s %d: there are %u"), what, (int)i, (unsigned)n);
    }
    return (uint32_t)i;
}

void mp_mica_tensor_of(const mp_mica_model_t *self, uint32_t id, mica_tensor_t *t) {
    if (!mica_tensor(self->engine, id, t)) {
        mp_raise_msg_varg(&mp_type_IndexError, MP_ERROR_TEXT("tensor %u: there are %u"), (unsigned)id,
            (unsigned)mica_model_info(self->engine)->n_tensors);
    }
}

mp_obj_t mp_mica_name_of(const mp_mica_model_t *self, const char *name) {
    size_t offset = (size_t)((const uint8_t *)name - self->file_data);
    return name == NULL ? mp_const_none : mp_mica_new_str(name, self->file_bytes - offset);
}

size_t mp_mica_element_size(char typecode) {
    return typecode == 'b' || typecode == 'B' ? 1 : typecode == 'h' || typecode == 'H' ? 2 : 4;
}

// A view of `bytes` bytes at p that keeps the block beginning at `head` alive, by pointing at the head and counting
// elements from there. Off the heap nothing needs keeping, and the head may be null.
mp_obj_t mp_mica_new_view(void *head, void *p, size_t bytes, char typecode, bool writable) {
    size_t size = mp_mica_element_size(typecode);
    size_t offset = 0;
    if (head != NULL && mp_mica_on_heap(head)) {
        offset = (size_t)((uint8_t *)p - (uint8_t *)head) / size; // both are multiples of 4
        if (offset >> MP_OBJ_ARRAY_FREE_SIZE_BITS) {
            mp_raise_msg(&mp_type_OverflowError, MP_ERROR_TEXT("tensor too far into its buffer for a memoryview"));
        }
        p = head;
    }
    mp_obj_array_t *view = m_new_obj(mp_obj_array_t);
    mp_obj_memoryview_init(view, (size_t)(uint8_t)typecode | (writable ? MP_OBJ_ARRAY_TYPECODE_FLAG_RW : 0), offset,
        bytes / size, p);
    return MP_OBJ_FROM_PTR(view);
}

mp_obj_t mp_mica_tensor_view(const mp_mica_model_t *self, const mica_tensor_t *t, const mp_mica_span_t *arena,
    bool writable) {
    const bool in_arena = t->space == MICA_SPACE_ARENA || t->space == MICA_SPACE_ROWS;
    void *head = in_arena ? arena->head : t->space == MICA_SPACE_STATE ? self->state : self->file_head;
    return mp_mica_new_view(head, t->data, t->bytes, mp_mica_typecode(t->dtype),
        writable && t->space != MICA_SPACE_DATA);
}

// Of all its rows, also where only some are kept.
uint32_t mp_mica_whole_bytes(const mica_tensor_t *t) {
    uint32_t bytes = (uint32_t)mp_mica_element_size(mp_mica_typecode(t->dtype));
    for (size_t i = 0; i < t->rank; i++) {
        bytes *= t->dims[i];
    }
    return bytes;
}

// _mica.pdm(): the filter behind a PDM microphone. firmware/mica/pdm.py is the face for people.

#include "mp_mica.h"
#include "pdm.h"

#ifndef MICA_WITHOUT_PDM

static void *get_buffer(mp_obj_t obj, size_t *bytes, size_t align, mp_uint_t flags) {
    mp_buffer_info_t buf;
    mp_get_buffer_raise(obj, &buf, flags);
    *bytes = buf.len;
    if ((uintptr_t)buf.buf % align != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("pdm: a buffer that is not aligned"));
    }
    return buf.buf;
}

// pdm(ratio, gain): a new filter, as a bytearray. pdm(filter, bits, samples, address): what DMA has written to a ring
// of bits, up to this address, goes to a ring of samples; returns how many so far, modulo 2^24. Allocates nothing.
static mp_obj_t module_pdm(size_t n_args, const mp_obj_t *args) {
    size_t bytes, room;
    if (n_args < 4) {
        mica_pdm_t *p = m_new(mica_pdm_t, 1);
        if (!mica_pdm_begin(p, mp_mica_get_int(args[0]), mp_mica_get_int(args[1]))) {
            mp_raise_ValueError(MP_ERROR_TEXT("pdm: ratio is 64, 128 or 256, and gain 1 to 64"));
        }
        return mp_obj_new_bytearray_by_ref(sizeof(*p), p);
    }
    mica_pdm_t *p = get_buffer(args[0], &bytes, 4, MP_BUFFER_RW);
    if (bytes != sizeof(*p) || !mica_pdm_check(p)) {
        mp_raise_ValueError(MP_ERROR_TEXT("pdm: no filter"));
    }
    int16_t *out = get_buffer(args[2], &room, 2, MP_BUFFER_WRITE);
    const uint8_t *bits = get_buffer(args[1], &bytes, 1, MP_BUFFER_READ);
    if (bytes == 0 || room == 0 || bytes % (MICA_PDM_CHUNK * 8 << p->shift / 3) != 0 || room % (2 * MICA_PDM_CHUNK) != 0
        || p->taken % (MICA_PDM_CHUNK * 8) != 0 || p->place % MICA_PDM_CHUNK != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("pdm: rings that are no whole chunks"));
    }
    mica_pdm_ring(p, bits, bytes, out, room / 2, ((size_t)mp_mica_get_int(args[3]) - (size_t)bits) % bytes);
    return MP_OBJ_NEW_SMALL_INT(p->count);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mp_mica_pdm_obj, 2, 4, module_pdm);

#endif

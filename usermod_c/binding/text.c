// Text out of files, as strings and as exceptions.

#include <string.h>

#include "mp_mica.h"

// MicroPython has such a check too, but under a name that changes between its releases.
static bool is_utf8(const char *s, size_t len) {
    unsigned more = 0; // bytes of this character still to come
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)s[i];
        if (more != 0) {
            if ((c & 0xc0) != 0x80) {
                return false;
            }
            more--;
        } else if (c >= 0x80) {
            if (c < 0xc0 || c >= 0xf8) {
                return false;
            }
            more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        }
    }
    return more == 0;
}

// Text that came out of a file may be anything; a str must be UTF-8, so what is not becomes ASCII with question marks.
static mp_obj_t new_clean_str(char *s, size_t len) {
    if (!is_utf8(s, len)) {
        for (size_t i = 0; i < len; i++) {
            if ((uint8_t)s[i] >= 0x80) {
                s[i] = '?';
            }
        }
    }
    return mp_obj_new_str(s, len);
}

mp_obj_t mp_mica_new_str(const char *s, size_t max) {
    if (s == NULL) {
        return mp_const_none;
    }
    // The zero was there at load; in a file that changed since it may be gone.
    const char *end = memchr(s, 0, max);
    size_t len = end == NULL ? max : (size_t)(end - s);
    char *copy = m_new(char, len + 1);
    memcpy(copy, s, len);
    mp_obj_t str = new_clean_str(copy, len);
    m_del(char, copy, len + 1);
    return str;
}

NORETURN void mp_mica_raise(const mica_error_t *err, const void *base, size_t len) {
    char text[160];
    mica_error_text(err, base, len, text, sizeof(text));
    mp_obj_t str = new_clean_str(text, strlen(text));
    nlr_raise(mp_obj_new_exception_arg1(
        err->status == MICA_ERR_ARENA ? &mp_type_MemoryError : &mp_type_ValueError, str));
}

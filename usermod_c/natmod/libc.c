// What the compiler and the engine take for granted of a C library. MicroPython's table has two of these functions.
#include <stddef.h>
#include <string.h>

#include "native.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    return mp_fun_table.memmove_(to, from, n);
}

void *memmove(void *to, const void *from, size_t n) {
    return mp_fun_table.memmove_(to, from, n);
}

void *memset(void *to, int c, size_t n) {
    return mp_fun_table.memset_(to, c, n);
}

void *memchr(const void *p, int c, size_t n) {
    for (const unsigned char *at = p; n > 0; n--, at++) {
        if (*at == (unsigned char)c) {
            return (void *)at;
        }
    }
    return NULL;
}

int memcmp(const void *a, const void *b, size_t n) {
    for (const unsigned char *x = a, *y = b; n > 0; n--, x++, y++) {
        if (*x != *y) {
            return *x < *y ? -1 : 1;
        }
    }
    return 0;
}

size_t strlen(const char *s) {
    size_t n = 0;
    while (s[n] != 0) {
        n++;
    }
    return n;
}

char *strchr(const char *s, int c) {
    for (;; s++) {
        if (*s == (char)c) {
            return (char *)s;
        }
        if (*s == 0) {
            return NULL;
        }
    }
}

int strcmp(const char *a, const char *b) {
    while (*a != 0 && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

#ifdef MICA_PACKED_TEXTS
// The linker's next stage fills it in: a compiler that saw this would know that all are 0.
const uint8_t mica_text_pairs[128][2] = { { 0 } };
#endif

#include "string.h"

#include <stdint.h>

void *memcpy(void *to, const void *from, size_t n) {
    return memmove(to, from, n);
}

void *memmove(void *to, const void *from, size_t n) {
#ifdef __wasm_bulk_memory__
    return __builtin_memmove(to, from, n); // one instruction
#else
    uint8_t *d = to;
    const uint8_t *s = from;
    if (d < s) {
        while (n--) {
            *d++ = *s++;
        }
    } else {
        while (n--) {
            d[n] = s[n];
        }
    }
    return to;
#endif
}

void *memset(void *to, int c, size_t n) {
#ifdef __wasm_bulk_memory__
    return __builtin_memset(to, c, n);
#else
    for (uint8_t *d = to; n--; ++d) {
        *d = (uint8_t)c;
    }
    return to;
#endif
}

int memcmp(const void *x, const void *y, size_t n) {
    for (const uint8_t *a = x, *b = y; n--; ++a, ++b) {
        if (*a != *b) {
            return *a - *b;
        }
    }
    return 0;
}

size_t strlen(const char *s) {
    size_t n = 0;
    while (s[n]) {
        ++n;
    }
    return n;
}

int strcmp(const char *a, const char *b) {
    while (*a && *a == *b) {
        ++a;
        ++b;
    }
    return (uint8_t)*a - (uint8_t)*b;
}

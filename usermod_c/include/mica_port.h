// mica: what the engine asks of compiler and core. A port that fails here needs more than a recompile.
#ifndef MICA_PORT_H
#define MICA_PORT_H

#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mica reads int32 constants in place, so the core has to be little endian"
#endif

// A word of four bytes. Both kinds of access are to the same objects, so the compiler must not assume otherwise.
typedef uint32_t __attribute__((may_alias)) mica_word_t;

// Requantisation relies on >> of a negative number filling with the sign (C99 leaves it open; GCC and Clang do).
typedef char mica_port_needs_arithmetic_shift[(-5 >> 1) == -3 ? 1 : -1];

#endif

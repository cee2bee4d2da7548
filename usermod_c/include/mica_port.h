// mica: what the engine asks of compiler and core. A port that fails here needs more than a recompile.
#ifndef MICA_PORT_H
#define MICA_PORT_H

#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mica reads int32 constants in place, so the core has to be little endian"
#endif

// Requantisation relies on >> of a negative number filling with the sign (implementation-defined in C99; GCC, Clang: yes).
typedef char mica_port_needs_arithmetic_shift[(-5 >> 1) == -3 ? 1 : -1];

#endif

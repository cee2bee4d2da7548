#define MICROPY_CONFIG_ROM_LEVEL (MICROPY_CONFIG_ROM_LEVEL_EXTRA_FEATURES)
// Tests ask whether the heap is locked.
#define MICROPY_PY_MICROPYTHON_HEAP_LOCKED (1)

#include "variants/mpconfigvariant_common.h"

// Ctrl-C between two bytecodes, as on boards. Raised from the signal handler it could leave a C function half done, for
// example Model.end() before it gave the arena back.
#undef MICROPY_ASYNC_KBD_INTR
#define MICROPY_ASYNC_KBD_INTR (0)

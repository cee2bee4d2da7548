#define MICROPY_CONFIG_ROM_LEVEL (MICROPY_CONFIG_ROM_LEVEL_EXTRA_FEATURES)
// Tests ask whether the heap is locked.
#define MICROPY_PY_MICROPYTHON_HEAP_LOCKED (1)

#include "variants/mpconfigvariant_common.h"

// MicroPython's configuration for the emulated boards: the port's own, with what a real board also has.
// The port defines these without asking, so each is taken back first.
#include <mpconfigport.h>

#include <stdint.h>
#include "irq.h"

#undef MICROPY_PY_TIME
#define MICROPY_PY_TIME (1)
#define MICROPY_PY_TIME_GMTIME_LOCALTIME_MKTIME (1)
#define MICROPY_PY_TIME_TIME_TIME_NS (1)
#define MICROPY_PY_TIME_INCLUDEFILE "modtime.inc.h"
#undef MICROPY_PY_SELECT
#define MICROPY_PY_SELECT (1)
#undef MICROPY_PY_ASYNCIO
#define MICROPY_PY_ASYNCIO (1)
#undef MICROPY_PY_SYS_STDIO_BUFFER
#define MICROPY_PY_SYS_STDIO_BUFFER (1)
#undef MICROPY_VFS_ROM_IOCTL
#define MICROPY_VFS_ROM_IOCTL (1)
#undef MICROPY_ENABLE_FINALISER
#define MICROPY_ENABLE_FINALISER (1)
#undef MICROPY_KBD_EXCEPTION
#define MICROPY_KBD_EXCEPTION (1)
#undef MICROPY_MODULE_BUILTIN_INIT
#define MICROPY_MODULE_BUILTIN_INIT (1)
#if defined(__ARM_ARCH_6M__)
#undef MICROPY_EMIT_THUMB_ARMV7M
#define MICROPY_EMIT_THUMB_ARMV7M (0)
#undef MICROPY_EMIT_INLINE_THUMB
#define MICROPY_EMIT_INLINE_THUMB (0)
#endif
// Tests ask how much a run allocates, and whether the heap is locked.
#undef MICROPY_PY_MICROPYTHON_HEAP_LOCKED
#define MICROPY_PY_MICROPYTHON_HEAP_LOCKED (1)

#undef MICROPY_PORT_INIT_FUNC
#define MICROPY_PORT_INIT_FUNC board_init()
void board_init(void);

#if defined(__XTENSA__)
#define MICROPY_EMIT_XTENSAWIN (1) // loads native modules, as the esp32 port
#define MICROPY_NLR_SETJMP (1)
#endif

// Input comes by interrupt, so these are needed and a wait may sleep.
#define MICROPY_BEGIN_ATOMIC_SECTION() board_irq_disable()
#define MICROPY_END_ATOMIC_SECTION(state) board_irq_restore(state)
#define MICROPY_INTERNAL_WFE(timeout_ms) board_wait((uint32_t)(timeout_ms))
void board_wait(uint32_t timeout_ms);

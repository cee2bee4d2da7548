# Shared by the emulated boards: included from a board's mpconfigboard.mk, after it has set
# MICA_QEMU_SOC_C (the files for its UART, timer and CPU) and its -mcpu and BOARD_... flags.
# MICA_PORT_DIR (this folder), MICA_ROMFS_BASE, MICA_ROMFS_BYTES and MICA_ARENA_BYTES come from board.toml, on make's command line.

LDSCRIPT = $(BOARD_DIR)/board.ld
LDFLAGS += -L$(MICA_PORT_DIR)
# From MicroPython 1.29 on the port calls the linker itself, before it the compiler, which wants the linker's options so.
MICA_WL := $(shell grep -qF '$$(LD) $$(LDFLAGS)' $(TOP)/ports/qemu/Makefile || echo -Wl,)
MICA_WRAPPED = mp_hal_stdin_rx_chr mp_hal_stdio_poll mp_vfs_rom_ioctl ticks_init
MICA_WRAPPED += mp_hal_ticks_cpu mp_hal_ticks_us mp_hal_ticks_ms mp_hal_delay_us mp_hal_delay_ms
LDFLAGS += $(addprefix $(MICA_WL)--wrap=,$(MICA_WRAPPED))

CFLAGS += -I$(MICA_PORT_DIR) -DMP_CONFIGFILE='<$(MICA_PORT_DIR)/mpconfig.h>'
CFLAGS += -DMICA_ROMFS_BASE=$(MICA_ROMFS_BASE) -DMICA_ROMFS_BYTES=$(MICA_ROMFS_BYTES)

vpath %.c $(MICA_PORT_DIR)
SRC_C += board.c uart_ring.c $(MICA_QEMU_SOC_C) shared/timeutils/timeutils.c
MICROPY_VFS_LFS2 = 1
MICROPY_HEAP_SIZE ?= 4194304

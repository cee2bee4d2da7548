# Shared by the emulated boards: included from a board's mpconfigboard.mk, after it has set
# MICA_QEMU_SOC_C (the files for its UART, timer and CPU) and its -mcpu and BOARD_... flags.
# MICA_ROMFS_BASE, MICA_ROMFS_BYTES and MICA_ARENA_BYTES come from board.toml, on make's command line.
MICA_QEMU_DIR := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))

LDSCRIPT = $(BOARD_DIR)/board.ld
LDFLAGS += -L$(MICA_QEMU_DIR)
LDFLAGS += -Wl,--wrap=mp_hal_stdin_rx_chr -Wl,--wrap=mp_hal_stdio_poll

CFLAGS += -I$(MICA_QEMU_DIR) -DMP_CONFIGFILE='<$(MICA_QEMU_DIR)/mpconfig.h>'
CFLAGS += -DMICA_ROMFS_BASE=$(MICA_ROMFS_BASE) -DMICA_ROMFS_BYTES=$(MICA_ROMFS_BYTES)

vpath %.c $(MICA_QEMU_DIR)
SRC_C += board.c uart_ring.c $(MICA_QEMU_SOC_C) shared/timeutils/timeutils.c
MICROPY_VFS_LFS2 = 1

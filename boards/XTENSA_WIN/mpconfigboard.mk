QEMU_ARCH = xtensa
QEMU_MACHINE = lx60
# mica/toolchain/ports/qemu.py gives CC, which is xtensa_cc.py, and what it calls by itself.
CROSS_COMPILE ?= xtensa-lx106-elf-

# binutils 2.44 asserts where it merges strings.
CFLAGS += -fpic -fno-jump-tables -fsingle-precision-constant -fno-merge-constants
CFLAGS += -DMICROPY_HW_MCU_NAME='"de233_fpu"'
CFLAGS += -DBOARD_UART_BASE=0xfd050020 -DBOARD_UART_STEP=4 -DBOARD_UART_INTERRUPT=0
CFLAGS += -DBOARD_TIMER_HZ=40000000 -DBOARD_TIMER_INTERRUPT=6
# A frame of 8 registers and more takes 32 bytes at least.
CFLAGS += -DBOARD_STACK_BYTES=65536

LDFLAGS += -nostdlib $(MICA_WL)--no-warn-rwx-segments
MPY_CROSS_FLAGS += -march=xtensawin

vpath %.S $(MICA_PORT_DIR)
vpath %.c $(dir $(firstword $(MICA_LIBGCC)))
SRC_BOARD_O += xtensa_windows.o
MICA_QEMU_SOC_C = xtensa_lx60.c uart16550.c $(notdir $(MICA_LIBGCC))
include $(MICA_PORT_DIR)/qemu.mk

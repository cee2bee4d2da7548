QEMU_ARCH = xtensa
QEMU_MACHINE = lx60-nommu
CROSS_COMPILE ?= xtensa-lx106-elf-

# Debian's compiler does not find its C library by itself.
CFLAGS += -isystem /usr/lib/xtensa-lx106-elf/include
CFLAGS += -mlongcalls -mtext-section-literals -fsingle-precision-constant
CFLAGS += -DMICROPY_HW_MCU_NAME='"lx106"'
CFLAGS += -DBOARD_UART_BASE=0x9d050020 -DBOARD_UART_POLLED=1 -DBOARD_TIMER_HZ=40000000 -DBOARD_TIMER_INTERRUPT=6

LDFLAGS += -nostdlib -L/usr/lib/xtensa-lx106-elf/lib $(MICA_WL)--no-warn-rwx-segments
LIBS = -lc $(shell $(CC) -print-libgcc-file-name)
MPY_CROSS_FLAGS += -march=xtensa
MICROPY_HEAP_SIZE = 4194304

MICA_QEMU_SOC_C = xtensa_lx60.c xtensa_libgcc.c
include $(MICA_PORT_DIR)/qemu.mk

QEMU_ARCH = arm
QEMU_MACHINE = mps3-an547

# With hard floats, as GCC has MVE only with these.
CFLAGS += -mthumb -mcpu=cortex-m55 -mfloat-abi=hard
# For gchelper_thumb2.s, which would be assembled for an older core and not link. (binutils 2.40 knows no -mcpu=cortex-m55.)
AFLAGS += -march=armv8-m.main
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M55"'
CFLAGS += -DBOARD_UART_BASE=0x59303000 -DBOARD_UART_RX_IRQ=33
CFLAGS += -DBOARD_COUNTER_BASE=0x58100000 -DBOARD_TIMER_BASE=0x58000000 -DBOARD_TIMER_IRQ=3 -DBOARD_TIMER_HZ=32000000

SRC_BOARD_O += shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
MPY_CROSS_FLAGS += -march=armv7emsp

MICA_QEMU_SOC_C = cortexm.c cmsdk_uart.c sse_timer.c
include $(MICA_PORT_DIR)/qemu.mk

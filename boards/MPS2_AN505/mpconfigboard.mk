QEMU_ARCH = arm
QEMU_MACHINE = mps2-an505

CFLAGS += -mthumb -mcpu=cortex-m33 -mfloat-abi=hard -mfpu=fpv5-sp-d16
# For gchelper_thumb2.s, which would be assembled for an older core and not link.
AFLAGS += -mcpu=cortex-m33
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M33"'
CFLAGS += -DBOARD_UART_BASE=0x50200000 -DBOARD_UART_RX_IRQ=32
CFLAGS += -DBOARD_TIMER_BASE=0x50000000 -DBOARD_TIMER_IRQ=3 -DBOARD_TIMER_HZ=20000000

SRC_BOARD_O += shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
MPY_CROSS_FLAGS += -march=armv7emsp

MICA_QEMU_SOC_C = cortexm.c cmsdk_uart.c cmsdk_timer.c
include $(MICA_PORT_DIR)/qemu.mk

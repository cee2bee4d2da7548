QEMU_ARCH = arm
QEMU_MACHINE = microbit

CFLAGS += -mthumb -mcpu=cortex-m0 -mfloat-abi=soft
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M0"'
CFLAGS += -DBOARD_UART_BASE=0x40002000 -DBOARD_UART_RX_IRQ=2
CFLAGS += -DBOARD_TIMER_BASE=0x40008000 -DBOARD_TIMER_IRQ=8 -DBOARD_TIMER_HZ=16000000

SRC_BOARD_O += shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb1.o
MPY_CROSS_FLAGS += -march=armv6m
MICROPY_HEAP_SIZE = 196608

MICA_QEMU_SOC_C = cortexm.c nrf51.c
include $(MICA_PORT_DIR)/qemu.mk

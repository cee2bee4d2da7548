QEMU_ARCH = arm
QEMU_MACHINE = mps2-an386

CFLAGS += -mthumb -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M4F"'
CFLAGS += -DBOARD_UART_BASE=0x40004000 -DBOARD_UART_RX_IRQ=0
CFLAGS += -DBOARD_TIMER_BASE=0x40000000 -DBOARD_TIMER_IRQ=8 -DBOARD_TIMER_HZ=25000000

SRC_BOARD_O += shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
MPY_CROSS_FLAGS += -march=armv7emsp
MICROPY_HEAP_SIZE = 4194304

MICA_QEMU_SOC_C = cortexm.c cmsdk_uart.c cmsdk_timer.c
include $(MICA_PORT_DIR)/qemu.mk

# Boards with Arm's MPS2, included as qemu.mk is: the UART and timer are at the same addresses, whatever the core.
QEMU_ARCH = arm
CFLAGS += -mthumb -DBOARD_UART_BASE=0x40004000 -DBOARD_UART_RX_IRQ=0
CFLAGS += -DBOARD_TIMER_BASE=0x40000000 -DBOARD_TIMER_IRQ=8 -DBOARD_TIMER_HZ=25000000
SRC_BOARD_O += shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
MICA_QEMU_SOC_C = cortexm.c cmsdk_uart.c cmsdk_timer.c
include $(MICA_PORT_DIR)/qemu.mk

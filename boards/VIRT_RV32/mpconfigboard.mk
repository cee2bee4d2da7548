QEMU_ARCH = riscv32
QEMU_MACHINE = virt

# GCC 12 has its libraries for exactly rv32imac; the name with _zicsr, which the port prefers, would link 64-bit ones.
# With this version of the specification the instructions for CSRs are part of the base.
RV32_ARCH = rv32imac
AFLAGS += -misa-spec=2.2
CFLAGS += -DMICROPY_HW_MCU_NAME='"$(RV32_ARCH)"'
CFLAGS += -DBOARD_UART_BASE=0x10000000 -DBOARD_UART_STEP=1 -DBOARD_TIMER_HZ=10000000

SRC_BOARD_O += shared/runtime/gchelper_native.o shared/runtime/gchelper_rv32i.o
MPY_CROSS_FLAGS += -march=rv32imc

MICA_QEMU_SOC_C = rv32_virt.c uart16550.c
include $(MICA_PORT_DIR)/qemu.mk

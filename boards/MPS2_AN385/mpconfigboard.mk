QEMU_MACHINE = mps2-an385
CFLAGS += -mcpu=cortex-m3 -mfloat-abi=soft
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M3"'
MPY_CROSS_FLAGS += -march=armv7m
include $(MICA_PORT_DIR)/mps2.mk

QEMU_MACHINE = mps2-an386
CFLAGS += -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M4F"'
MPY_CROSS_FLAGS += -march=armv7emsp
include $(MICA_PORT_DIR)/mps2.mk

QEMU_MACHINE = mps2-an500
CFLAGS += -mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M7"'
MPY_CROSS_FLAGS += -march=armv7emdp
include $(MICA_PORT_DIR)/mps2.mk

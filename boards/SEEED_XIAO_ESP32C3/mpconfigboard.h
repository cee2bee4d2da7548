#define MICROPY_HW_BOARD_NAME "Seeed XIAO ESP32C3"
#define MICROPY_HW_MCU_NAME "ESP32C3"
#define MICROPY_HW_I2C0_SCL (7)
#define MICROPY_HW_I2C0_SDA (6)

// Models are read in place from the partition "romfs".
#define MICROPY_VFS_ROM (1)

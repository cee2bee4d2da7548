#define MICROPY_HW_BOARD_NAME "Generic ESP32S3 module"
#define MICROPY_HW_MCU_NAME "ESP32S3"
#define MICROPY_HW_ENABLE_UART_REPL (1)
#define MICROPY_HW_I2C0_SCL (9)
#define MICROPY_HW_I2C0_SDA (8)

// Models are read in place from the partition "romfs".
#define MICROPY_VFS_ROM (1)

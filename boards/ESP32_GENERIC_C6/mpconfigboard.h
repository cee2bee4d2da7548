#define MICROPY_HW_BOARD_NAME "ESP32C6 module"
#define MICROPY_HW_MCU_NAME "ESP32C6"
#define MICROPY_HW_ENABLE_UART_REPL (1)
#define MICROPY_PY_MACHINE_I2S (0)

// Models are read in place from the partition "romfs".
#define MICROPY_VFS_ROM (1)

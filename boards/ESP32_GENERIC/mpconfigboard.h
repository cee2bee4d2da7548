#define MICROPY_HW_BOARD_NAME "Generic ESP32 module"
#define MICROPY_HW_MCU_NAME "ESP32"

// Models are read in place from the partition "romfs".
#define MICROPY_VFS_ROM (1)

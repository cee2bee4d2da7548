#define MICROPY_HW_BOARD_NAME "Adafruit Feather RP2040"

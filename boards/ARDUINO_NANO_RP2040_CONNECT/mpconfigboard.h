#define MICROPY_HW_BOARD_NAME "Arduino Nano RP2040 Connect"

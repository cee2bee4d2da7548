#define MICROPY_HW_BOARD_NAME "Raspberry Pi Pico 2 W"
#define MICROPY_PY_NETWORK_HOSTNAME_DEFAULT "Pico2W"
#include "radio.h"

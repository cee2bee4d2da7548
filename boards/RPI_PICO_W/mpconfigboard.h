#define MICROPY_HW_BOARD_NAME "Raspberry Pi Pico W"
#define MICROPY_PY_NETWORK_HOSTNAME_DEFAULT "PicoW"
#include "radio.h"

// The radio of a Pico W and a Pico 2 W: on SPI by PIO, with lwIP on this side and three pins of its own.
#define MICROPY_PY_NETWORK (1)
#define CYW43_USE_SPI (1)
#define CYW43_LWIP (1)
#define CYW43_GPIO (1)
#define CYW43_SPI_PIO (1)
#define MICROPY_HW_PIN_EXT_COUNT CYW43_WL_GPIO_COUNT

// A pin that the radio interrupts with keeps its handler over a soft reset.
int mp_hal_is_pin_reserved(int n);
#define MICROPY_HW_PIN_RESERVED(i) mp_hal_is_pin_reserved(i)

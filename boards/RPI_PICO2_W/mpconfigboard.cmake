# MicroPython's own RPI_PICO2_W with a ROMFS partition for models, and without Bluetooth, as RPI_PICO_W.
set(PICO_BOARD "pico2_w")
set(PICO_PLATFORM "rp2350")
include(${MICA_PORT_DIR}/board.cmake)

set(MICROPY_PY_LWIP ON)
set(MICROPY_PY_NETWORK_CYW43 ON)
include(${MICA_PORT_DIR}/radio.cmake)

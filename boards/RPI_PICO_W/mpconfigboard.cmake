# MicroPython's own RPI_PICO_W with a ROMFS partition for models, and without Bluetooth, whose code would leave no room
# for it.
set(PICO_BOARD "pico_w")
set(PICO_PLATFORM "rp2040")
include(${MICA_PORT_DIR}/board.cmake)

set(MICROPY_PY_LWIP ON)
set(MICROPY_PY_NETWORK_CYW43 ON)
include(${MICA_PORT_DIR}/radio.cmake)

# As RPI_PICO: the kernels' inner loops run from RAM.
set(MICA_HOT_SECTION .time_critical.mica)

# MicroPython's own RPI_PICO2 with a ROMFS partition for models.
set(PICO_BOARD "pico2")
set(PICO_PLATFORM "rp2350")
include(${MICA_PORT_DIR}/board.cmake)

# MicroPython's own RPI_PICO with a ROMFS partition for models.
set(PICO_BOARD "pico")
set(PICO_PLATFORM "rp2040")
include(${MICA_PORT_DIR}/board.cmake)

# The kernels' inner loops run from RAM, so that the flash cache (16 kB) is the weights' alone. Costs 17.4 kB of RAM; empty: from
# flash.
set(MICA_HOT_SECTION .time_critical.mica)

# With a ROMFS partition for models.
set(PICO_BOARD "adafruit_feather_rp2040")
set(PICO_PLATFORM "rp2040")
include(${MICA_PORT_DIR}/board.cmake)

# As RPI_PICO: the kernels' inner loops run from RAM.
set(MICA_HOT_SECTION .time_critical.mica)

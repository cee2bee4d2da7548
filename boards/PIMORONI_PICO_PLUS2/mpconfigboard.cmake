# With a ROMFS partition for models.
set(PICO_BOARD "pimoroni_pico_plus2_rp2350")
set(PICO_PLATFORM "rp2350")
set(PICO_NUM_GPIOS 48)
include(${MICA_PORT_DIR}/board.cmake)

# With a ROMFS partition for models.
set(PICO_BOARD "seeed_xiao_rp2350")
set(PICO_PLATFORM "rp2350")
include(${MICA_PORT_DIR}/board.cmake)

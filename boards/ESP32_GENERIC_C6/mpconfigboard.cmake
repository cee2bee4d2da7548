# With a ROMFS partition for models.
set(IDF_TARGET esp32c6)
set(SDKCONFIG_DEFAULTS
    boards/sdkconfig.base
    boards/sdkconfig.c6
    boards/sdkconfig.ble
)
include(${MICA_PORT_DIR}/board.cmake)

# With a ROMFS partition for models.
set(IDF_TARGET esp32c3)
set(SDKCONFIG_DEFAULTS
    boards/sdkconfig.base
    boards/sdkconfig.ble
    boards/ESP32_GENERIC_C3/sdkconfig.c3usb
)
include(${MICA_PORT_DIR}/board.cmake)

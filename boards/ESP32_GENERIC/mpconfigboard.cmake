# MicroPython's own ESP32_GENERIC with a ROMFS partition for models. With PSRAM support, which starts without PSRAM too.
set(SDKCONFIG_DEFAULTS
    boards/sdkconfig.base
    boards/sdkconfig.ble
    boards/sdkconfig.spiram
)
include(${MICA_PORT_DIR}/board.cmake)

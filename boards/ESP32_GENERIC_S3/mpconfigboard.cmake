# MicroPython's own ESP32_GENERIC_S3 with a ROMFS partition for models. PSRAM is looked for at start.
set(IDF_TARGET esp32s3)
set(SDKCONFIG_DEFAULTS
    boards/sdkconfig.base
    boards/sdkconfig.usb
    boards/sdkconfig.ble
    boards/sdkconfig.spiram_sx
    boards/ESP32_GENERIC_S3/sdkconfig.board
)
include(${MICA_PORT_DIR}/board.cmake)

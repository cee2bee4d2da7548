# Shared by the ESP32 boards: included from a board's mpconfigboard.cmake, after it has set IDF_TARGET and the
# SDKCONFIG_DEFAULTS of MicroPython's board of that name. Adds the board's own partition table, which has room for models.
file(WRITE ${CMAKE_BINARY_DIR}/sdkconfig.mica
    "CONFIG_PARTITION_TABLE_CUSTOM=y\nCONFIG_PARTITION_TABLE_CUSTOM_FILENAME=\"${MICROPY_BOARD_DIR}/partitions.csv\"\n"
)
list(APPEND SDKCONFIG_DEFAULTS ${CMAKE_BINARY_DIR}/sdkconfig.mica)

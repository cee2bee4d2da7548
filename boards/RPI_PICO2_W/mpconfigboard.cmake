# MicroPython's own RPI_PICO2_W with a ROMFS partition for models, and without Bluetooth, as RPI_PICO_W. The sizes come from board.toml.
set(PICO_BOARD "pico2_w")
set(PICO_PLATFORM "rp2350")

set(MICROPY_PY_LWIP ON)
set(MICROPY_PY_NETWORK_CYW43 ON)
include(${MICROPY_BOARD_DIR}/../common/rp2/radio.cmake)

list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

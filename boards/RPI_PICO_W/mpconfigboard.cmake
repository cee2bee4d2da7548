# MicroPython's own RPI_PICO_W with a ROMFS partition for models, and without Bluetooth, whose code would leave no room
# for it. The sizes come from board.toml.
set(PICO_BOARD "pico_w")
set(PICO_PLATFORM "rp2040")

set(MICROPY_PY_LWIP ON)
set(MICROPY_PY_NETWORK_CYW43 ON)
include(${MICROPY_BOARD_DIR}/../common/rp2/radio.cmake)

# As RPI_PICO: the kernels' inner loops run from RAM.
set(MICA_HOT_SECTION .time_critical.mica)

list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

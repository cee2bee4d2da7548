# MicroPython's own RPI_PICO2 with a ROMFS partition for models. The sizes come from board.toml.
set(PICO_BOARD "pico2")
set(PICO_PLATFORM "rp2350")

list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

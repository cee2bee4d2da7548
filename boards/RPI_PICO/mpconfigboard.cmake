# MicroPython's own RPI_PICO with a ROMFS partition for models. The sizes come from board.toml.
set(PICO_BOARD "pico")
set(PICO_PLATFORM "rp2040")

# The kernels' inner loops run from RAM, so that the flash cache (16 kB) is the weights' alone. Costs 17.4 kB of RAM; empty: from
# flash.
set(MICA_HOT_SECTION .time_critical.mica)

list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

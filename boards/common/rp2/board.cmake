# Included from a board's mpconfigboard.cmake: the places of models and files in flash, by the sizes of its board.toml.
list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

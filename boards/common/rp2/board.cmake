# Included from a board's mpconfigboard.cmake: the places of models and files in flash, by the sizes of its board.toml.
list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

# MicroPython's linker script takes its bytecode loop, collector and parser into RAM if their objects are *.obj, as pico-sdk named them
# before 2.1. An RP2350 has the 10.7 kB; its scores of perf_bench rise by 20 % on average.
if(PICO_PLATFORM MATCHES rp2350)
    set(CMAKE_USER_MAKE_RULES_OVERRIDE_C ${CMAKE_CURRENT_LIST_DIR}/objects.cmake)
endif()

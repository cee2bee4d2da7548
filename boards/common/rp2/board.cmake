# Included from a board's mpconfigboard.cmake: the places of models and files in flash, by the sizes of its board.toml.
list(APPEND MICROPY_DEF_BOARD
    MICROPY_HW_ROMFS_BYTES=${MICA_ROMFS_BYTES}
    MICROPY_HW_FLASH_STORAGE_BYTES=${MICA_STORAGE_BYTES}
)

# MicroPython's linker script takes its bytecode loop, collector and parser into RAM if they are *.obj, their name before pico-sdk 2.1.
if(PICO_PLATFORM MATCHES rp2350)
    set(CMAKE_USER_MAKE_RULES_OVERRIDE_C ${CMAKE_CURRENT_LIST_DIR}/objects.cmake)
endif()

# Without a network only hashlib and cryptolib use mbedtls. Its 68 other files, a fifth of a build's time, are not compiled.
function(mica_little_mbedtls)
    get_target_property(sources micropy_lib_mbedtls INTERFACE_SOURCES)
    list(FILTER sources INCLUDE REGEX "/(aes|md5|platform_util|sha1|sha256)\\.c$")
    set_target_properties(micropy_lib_mbedtls PROPERTIES INTERFACE_SOURCES "${sources}")
endfunction()
if(NOT MICROPY_PY_LWIP AND NOT MICROPY_PY_NETWORK_NINAW10)
    cmake_language(DEFER CALL mica_little_mbedtls)
endif()

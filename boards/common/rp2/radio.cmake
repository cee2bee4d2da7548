# For mpconfigboard.h, which includes radio.h.
include_directories(${CMAKE_CURRENT_LIST_DIR})
# The SDK's driver of the radio includes pico/cyw43_driver.h, whose folder only Bluetooth's part names. Last: MicroPython
# has a cyw43_configport.h of its own.
get_filename_component(sdk ${PICO_SDK_PATH} ABSOLUTE)
add_compile_options("SHELL:-idirafter ${sdk}/src/rp2_common/pico_cyw43_driver/include")

# MicroPython's RISCV variant of RPI_PICO2 with a ROMFS partition for models.
set(PICO_BOARD "pico2")
set(PICO_PLATFORM "rp2350-riscv")
set(CMAKE_TOOLCHAIN_FILE ${MICA_PORT_DIR}/riscv.cmake)
include(${MICA_PORT_DIR}/board.cmake)

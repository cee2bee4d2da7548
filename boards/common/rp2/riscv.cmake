# Toolchain of the RP2350's RISC-V cores: pico-sdk's pico_riscv_gcc.cmake for Debian's compiler, which comes without newlib and
# libstdc++. So the C library is picolibc, and gcc links. nosys.specs beside this file is empty.
set(CMAKE_SYSTEM_PROCESSOR hazard3)
set(PICO_GCC_TRIPLE riscv64-unknown-elf)
set(PICO_CLIB picolibc)
# GCC 12.2 fails to compile some constants with Zbs, which the SDK's assembly needs: only the assembler is told of it.
set(arch rv32imac_zicsr_zifencei_zba_zbb)
set(PICO_COMMON_LANG_FLAGS " -march=${arch}_zbkb -mabi=ilp32 -mno-riscv-attribute -Wa,-march=${arch}_zbs_zbkb")
string(APPEND PICO_COMMON_LANG_FLAGS " --specs=picolibc.specs -B${CMAKE_CURRENT_LIST_DIR}/")
# By a plain -march gcc finds the library; -T keeps picolibc's memory map away, as its specs don't see --script.
set(CMAKE_CXX_LINK_EXECUTABLE "<CMAKE_C_COMPILER> <FLAGS> -march=rv32imac -nostartfiles -T/dev/null <CMAKE_CXX_LINK_FLAGS> \
<LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
# Later runs of this file, in checks of the compiler, don't know where the SDK is.
if(PICO_SDK_PATH)
    set(ENV{MICA_PICO_SDK} ${PICO_SDK_PATH})
endif()
include($ENV{MICA_PICO_SDK}/cmake/preload/toolchains/util/pico_arm_gcc_common.cmake)
string(APPEND CMAKE_CXX_FLAGS_INIT " -DPICO_CXX_DISABLE_ALLOCATION_OVERRIDES=1")

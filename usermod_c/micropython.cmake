# The user module _mica for MicroPython's CMake ports (rp2, esp32):
#   cmake ... -DUSER_C_MODULES=<this file> [-DMICA_ARENA_BYTES=16384]
if(NOT DEFINED MICA_ARENA_BYTES)
    # Bytes of RAM for activations, in .bss; a model that needs more gets its own block from the heap.
    set(MICA_ARENA_BYTES 16384)
endif()
if(NOT DEFINED MICA_SCRATCH_BYTES)
    # Bytes of scratch that a model gets at most, whatever its file wants.
    set(MICA_SCRATCH_BYTES 16384)
endif()
if(NOT DEFINED MICA_ISA)
    # The folder of kernels/isa/ whose mica_select.h names the kernels for this core: the compiler tells it.
    separate_arguments(mica_flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
    execute_process(
        COMMAND ${CMAKE_C_COMPILER} ${mica_flags} -E -P -x c ${CMAKE_CURRENT_LIST_DIR}/kernels/isa/choose.inc
        OUTPUT_VARIABLE MICA_ISA OUTPUT_STRIP_TRAILING_WHITESPACE
    )
    if(NOT EXISTS ${CMAKE_CURRENT_LIST_DIR}/kernels/isa/${MICA_ISA}/mica_select.h)
        message(WARNING "mica: plain C, because the compiler did not tell the core; set MICA_ISA")
        set(MICA_ISA ref)
    endif()
endif()

# The lists are shared with make and setuptools: one path a line, # begins a comment, include FOLDER is the list of another folder.
# Appends the files of a list to MICA_SOURCES.
function(mica_read_list list_file)
    get_filename_component(folder ${list_file} DIRECTORY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list_file})
    file(STRINGS ${list_file} lines)
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "#.*" "" line "${line}")
        string(STRIP "${line}" line)
        if(line MATCHES "^include +(.+)$")
            mica_read_list(${folder}/${CMAKE_MATCH_1}/sources.txt)
        elseif(line)
            get_filename_component(source ${folder}/${line} ABSOLUTE)
            list(APPEND MICA_SOURCES ${source})
        endif()
    endforeach()
    set(MICA_SOURCES ${MICA_SOURCES} PARENT_SCOPE)
endfunction()

set(MICA_SOURCES)
set(MICA_ISA_DIR kernels/isa/${MICA_ISA})
set(MICA_LISTS sources.txt sources-micropython.txt)
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${MICA_ISA_DIR}/sources.txt)
    list(APPEND MICA_LISTS ${MICA_ISA_DIR}/sources.txt)
endif()
foreach(list_name ${MICA_LISTS})
    mica_read_list(${CMAKE_CURRENT_LIST_DIR}/${list_name})
endforeach()

add_library(usermod_mica INTERFACE)
target_sources(usermod_mica INTERFACE ${MICA_SOURCES})
target_include_directories(usermod_mica INTERFACE
    ${CMAKE_CURRENT_LIST_DIR}/include
    ${CMAKE_CURRENT_LIST_DIR}/kernels
    ${CMAKE_CURRENT_LIST_DIR}/${MICA_ISA_DIR}
)
target_compile_definitions(usermod_mica INTERFACE MICA_ARENA_BYTES=${MICA_ARENA_BYTES} MICA_SCRATCH_BYTES=${MICA_SCRATCH_BYTES})
# Kernels that are left out, such as conv2d_s8;add_s8 (or with a comma between).
string(REPLACE "," ";" MICA_WITHOUT_LIST "${MICA_WITHOUT}")
foreach(kernel IN LISTS MICA_WITHOUT_LIST)
    string(TOUPPER ${kernel} kernel)
    target_compile_definitions(usermod_mica INTERFACE MICA_WITHOUT_${kernel})
endforeach()
if(MICA_HOT_SECTION)
    # Where kernels in assembly lie, such as .time_critical.mica, which pico-sdk copies to RAM; without it, with other code.
    target_compile_definitions(usermod_mica INTERFACE MICA_HOT_SECTION=${MICA_HOT_SECTION})
endif()
target_link_options(usermod_mica INTERFACE -Wl,--wrap=readline,--wrap=mp_repl_autocomplete) # binding/heap.c
if(PICO_BOARD)
    target_link_options(usermod_mica INTERFACE -Wl,--wrap=mp_thread_deinit) # binding/worker_rp2.c
endif()
target_link_libraries(usermod INTERFACE usermod_mica)

# The port builds for size; the kernels' loops are where a model's time goes. Scheduled before registers are given out, they
# need more than Xtensa has.
set(MICA_FAST -O2)
if(MICA_ISA STREQUAL "xtensa")
    list(APPEND MICA_FAST -fno-schedule-insns)
endif()
foreach(source IN LISTS MICA_SOURCES)
    # A reference beside the core's own kernel only does what that refuses; but log_mel.c's frames are walked for both.
    get_filename_component(name ${source} NAME)
    set(own ${MICA_SOURCES})
    list(FILTER own INCLUDE REGEX "/isa/[a-z0-9]+/${name}$")
    set(rare FALSE)
    if(own AND source MATCHES "/kernels/ref/" AND NOT name STREQUAL "log_mel.c")
        set(rare TRUE)
    endif()
    if(source MATCHES "/kernels/.*\\.c$" AND NOT rare)
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${MICA_FAST}")
    endif()
endforeach()

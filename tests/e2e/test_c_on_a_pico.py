"""A model in a program of pico-sdk, on the virtual Pico: MLPerf Tiny's commands through its USB serial port."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import serial
from c_programs import program, put, write
from mlperf_runner import conversation, expected
from targets import nightly

from mica.boards import load_board
from mica.images import uf2
from mica.toolchain import sources

CMAKE = """\
cmake_minimum_required(VERSION 3.13)
include({tree}/lib/pico-sdk/pico_sdk_init.cmake)
project(app C CXX ASM)
pico_sdk_init()
add_subdirectory(net)
add_executable(app app.c)
pico_enable_stdio_usb(app 1)
target_link_libraries(app pico_stdlib net)
add_custom_command(TARGET app POST_BUILD COMMAND ${{CMAKE_OBJCOPY}} -Obinary app.elf app.bin)
"""
APP = """\
#include <stdio.h>
#include "pico/stdlib.h"
#define MLPERF_BEGIN() stdio_init_all()
#define MLPERF_GET() getchar()
#define MLPERF_PUT(c) putchar_raw(c)
#define MLPERF_FLUSH() stdio_flush()
#define MLPERF_MICROSECONDS() ((unsigned long)time_us_64())
#include "net/mlperf.c"
"""


@nightly
def test_mlperf_on_the_virtual_pico(tmp_path: Path) -> None:
    """The folder is a library of CMake there, as the page about C says; pico-sdk is MicroPython's copy."""
    tree = sources.fetch(libraries=("lib/mbedtls", "lib/pico-sdk", "lib/tinyusb"))
    made, pico = program("small", ["armv6m"]), load_board("RPI_PICO")
    assert pico.uf2 is not None
    write(made, tmp_path / "net")
    put(tmp_path / "net" / "mlperf.c", made.mlperf())
    put(tmp_path / "app.c", APP)
    put(tmp_path / "CMakeLists.txt", CMAKE.format(tree=tree))
    settings = ("-DPICO_NO_PICOTOOL=1", f"-DPICO_TINYUSB_PATH={tree}/lib/tinyusb", "-DPICO_BOARD=pico")
    for command in (["cmake", "-S", tmp_path, "-B", tmp_path / "b", *settings], ["make", "-C", tmp_path / "b"]):
        subprocess.run(command, check=True, capture_output=True)
    image = tmp_path / "app.uf2"
    image.write_bytes(uf2.build([(pico.uf2.base, (tmp_path / "b" / "app.bin").read_bytes())], pico.uf2.family))
    command = [sys.executable, "-m", "mica", "emu", "--image", image, "--json"]
    env = {**os.environ, "MICA_FLASH": str(tmp_path / "flash.bin")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as emulator:
        try:
            assert emulator.stdout is not None
            port = json.loads("".join(iter(emulator.stdout.readline, "}\n")) + "}")["port"]
            with serial.serial_for_url(port, timeout=60) as line:
                line.write(conversation(made).encode())
                said = line.read_until(b"[Unknown command: what]\r\n").decode().splitlines()
        finally:
            emulator.terminate()
    assert {"m-name-dut-[mica]", "m-load-done", "m-infer-done", "e-[Unknown command: what]"} <= set(said)
    assert [x for x in said if x.startswith("m-results")] == [f"m-results-[{expected(made)}]"] * 2

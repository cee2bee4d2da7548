"""The esp32 port: Espressif's chips, by the port's Makefile in the environment that ESP-IDF's export.sh sets up."""

from pathlib import Path

from mica.boards import BoardSpec
from mica.resources import data_dir
from mica.toolchain import esp_idf
from mica.toolchain.cache import Progress
from mica.toolchain.micropython import MicroPython
from mica.toolchain.ports.base import Job, PortBuild
from mica.toolchain.process import need_program


class _Esp32(PortBuild):
    elf = "micropython.elf"
    image = "firmware.bin"  # boot loader, partition table and program in one

    def prefix(self, board: BoardSpec) -> str:
        return ""  # ESP-IDF brings its own; this computer's binutils read its ELF files too

    def need_tools(self, board: BoardSpec, mp: MicroPython) -> str:
        need_program("make", "make")
        need_program("gcc", "gcc libc6-dev")
        idf = esp_idf.find(_chip(board), mp)
        return f"ESP-IDF {'.'.join(map(str, esp_idf.version(idf)))} at {idf}"

    def build(self, job: Job, port: Path, jobs: int, progress: Progress) -> None:
        options = {
            "USER_C_MODULES": data_dir("usermod_c") / "micropython.cmake",
            **job.engine(","),  # a semicolon would end the shell's command
            "MICA_PORT_DIR": self.common,
        }
        settings = {
            **self.settings(job, progress),
            "BUILD": job.obj,
            "FROZEN_MANIFEST": job.manifest,
            # The Makefile hands on what it knows, and its variable for that takes more.
            "CMAKE_ARGS": " ".join(f"-D{key}={value}" for key, value in options.items()),
        }
        make = ["make", "-C", str(port), *(f"{key}={value}" for key, value in settings.items())]
        script = 'unset MAKELEVEL; . "$IDF_PATH/export.sh" >&2 && exec "$@"'
        idf = esp_idf.find(_chip(job.board), job.micropython)
        command = ["bash", "-c", script, "mica", *make]
        job.run(command, progress, IDF_PATH=str(idf), CMAKE_BUILD_PARALLEL_LEVEL=str(jobs))


def _chip(board: BoardSpec) -> str:
    """ESP-IDF's name of the chip: esp32s3 of ESP32-S3."""
    return board.mcu.lower().replace("-", "")


PORT = _Esp32("esp32")

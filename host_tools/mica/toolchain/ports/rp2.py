"""The rp2 port: RP2040 and RP2350, by CMake and pico-sdk; its image is a UF2 file of mica's own making."""

import sys
from pathlib import Path

from mica.boards import BoardSpec
from mica.images import uf2
from mica.resources import data_dir
from mica.toolchain.cache import Progress
from mica.toolchain.micropython import MicroPython
from mica.toolchain.ports.base import Job, PortBuild
from mica.toolchain.process import need_program


class _Rp2(PortBuild):
    libraries = ("lib/mbedtls", "lib/pico-sdk", "lib/tinyusb")
    packages = " libstdc++-arm-none-eabi-newlib"

    def need_tools(self, board: BoardSpec, mp: MicroPython) -> str:
        need_program("cmake", "cmake")
        need_program("g++", "g++")  # pico-sdk makes a tool of its own for this computer
        return super().need_tools(board, mp)

    def build(self, job: Job, port: Path, jobs: int, progress: Progress) -> None:
        board = job.board
        settings: dict[str, object] = {
            "MICROPY_BOARD": board.name,
            "MICROPY_BOARD_DIR": board.folder,
            "MICROPY_FROZEN_MANIFEST": job.manifest,
            "PICO_NO_PICOTOOL": 1,
            **job.engine(";"),
            "MICA_PORT_DIR": self.common,
            "MICA_ROMFS_BYTES": board.romfs.size if board.romfs else 0,
            "MICA_STORAGE_BYTES": board.storage,
        }
        if job.usermod:
            settings["USER_C_MODULES"] = data_dir("usermod_c") / "micropython.cmake"
        settings["Python3_EXECUTABLE"] = sys.executable  # MicroPython's tools run in the same Python as mica
        assignments = [f"-D{key}={value}" for key, value in settings.items()]
        job.run(["cmake", "-S", port, "-B", job.obj, *assignments], progress)
        job.run(["make", "-C", job.obj, f"-j{jobs}"], progress)
        if board.uf2 and job.uf2:
            firmware = (job.obj / "firmware.bin").read_bytes()
            job.uf2.write_bytes(uf2.build([(board.uf2.base, firmware)], board.uf2.family))


PORT = _Rp2("rp2")

"""The qemu port: boards that QEMU emulates."""

from mica.boards import BoardSpec
from mica.resources import data_dir
from mica.toolchain import xtensa_cc
from mica.toolchain.cache import Progress
from mica.toolchain.micropython import MicroPython
from mica.toolchain.ports.base import Job, PortBuild

_LIBRARY = data_dir("usermod_c") / "natmod"  # for register windows; a stock firmware has nothing else of it


class _Qemu(PortBuild):
    def need_tools(self, board: BoardSpec, mp: MicroPython) -> str:
        said = super().need_tools(board, mp)
        return xtensa_cc.VERSION if board.isa == "xtensa" else said

    def settings(self, board: BoardSpec) -> dict[str, object]:
        rom = board.romfs
        window = {"MICA_ROMFS_BASE": hex(rom.base), "MICA_ROMFS_BYTES": rom.size} if rom else {}
        return {**super().settings(board), **window}

    def variables(self, job: Job, progress: Progress) -> dict[str, object]:
        """Return the compiler with register windows, which is put together, and what it calls by itself."""
        if job.board.isa != "xtensa":
            return {}
        compiler = xtensa_cc.compiler(job.folder, progress, unpinned=job.micropython.unpinned, linker="ld")
        return {"CC": compiler, "MICA_LIBGCC": " ".join(xtensa_cc.LIBRARY), "MICA_LIBGCC_DIR": _LIBRARY}


PORT = _Qemu("qemu")

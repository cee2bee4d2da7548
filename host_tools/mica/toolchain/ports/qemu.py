"""The qemu port: boards that QEMU emulates."""

from mica.boards import BoardSpec
from mica.toolchain import xtensa_cc, xtensa_gcc
from mica.toolchain.cache import Progress
from mica.toolchain.micropython import MicroPython
from mica.toolchain.ports.base import Job, PortBuild


class _Qemu(PortBuild):
    def need_tools(self, board: BoardSpec, mp: MicroPython) -> str:
        said = super().need_tools(board, mp)
        return xtensa_gcc.VERSION if board.isa == "xtensa" else said

    def settings(self, job: Job, progress: Progress) -> dict[str, object]:
        found = super().settings(job, progress)
        if rom := job.board.romfs:
            found |= {"MICA_ROMFS_BASE": hex(rom.base), "MICA_ROMFS_BYTES": rom.size}
        if job.board.isa == "xtensa":
            found["CC"] = xtensa_cc.compiler(job.folder, progress, unpinned=job.micropython.unpinned, linker="ld")
            found["MICA_LIBGCC"] = " ".join(map(str, xtensa_cc.LIBRARY))  # what it calls by itself
        return found


PORT = _Qemu("qemu")

"""The qemu port: boards that QEMU emulates."""

from mica.boards import BoardSpec
from mica.toolchain.ports.base import PortBuild


class _Qemu(PortBuild):
    def settings(self, board: BoardSpec) -> dict[str, object]:
        rom = board.romfs
        window = {"MICA_ROMFS_BASE": hex(rom.base), "MICA_ROMFS_BYTES": rom.size} if rom else {}
        return {**super().settings(board), **window}


PORT = _Qemu("qemu")

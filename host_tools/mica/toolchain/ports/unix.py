"""The unix port: MicroPython as a program of this computer."""

from mica.boards import BoardSpec
from mica.toolchain.ports.base import PortBuild


class _Unix(PortBuild):
    elf = "micropython"

    def settings(self, board: BoardSpec) -> dict[str, object]:
        return {"VARIANT_DIR": board.folder, "VARIANT": board.name}


PORT = _Unix("unix")

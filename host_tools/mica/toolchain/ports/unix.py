"""The unix port: MicroPython as a program of this computer."""

from mica.toolchain.cache import Progress
from mica.toolchain.ports.base import Job, PortBuild


class _Unix(PortBuild):
    elf = "micropython"

    def settings(self, job: Job, progress: Progress) -> dict[str, object]:
        return {"VARIANT_DIR": job.board.folder, "VARIANT": job.board.name}


PORT = _Unix("unix")

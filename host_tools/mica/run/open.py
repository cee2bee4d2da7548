"""Opens a model on a target: this computer, an emulated board, or a port."""

from collections.abc import Callable

from mica.custom import NO_CUSTOM, CustomOps
from mica.link.board import Say
from mica.run.host import HostRunner
from mica.run.runner import Runner


def open_runner(
    data: bytes,
    target: str,
    say: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    icount: bool = False,
    custom: CustomOps = NO_CUSTOM,
) -> Runner:
    """A runner on `target`: "host", an emulated board, or a port. `say` is told of slow preparations.

    With `icount` the clock of a board in QEMU counts instructions. custom: operators of the user's own.
    """
    if target == "host":
        runner = HostRunner(data, custom)
        if say is not None and "reference" in runner.engine_name:
            say(f"running in the {runner.engine_name}")
        return runner
    from mica.run.board import BoardRunner

    return BoardRunner(data, target, say, progress, icount=icount, custom=custom)

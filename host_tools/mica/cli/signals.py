"""Being told to end, from outside."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def as_exits() -> Iterator[None]:
    """Within, a SIGTERM or a closed terminal raises SystemExit, so that whatever is running is ended in good order.

    Left to themselves these signals would end us on the spot: a compiler or an emulator might stay behind.
    """
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    found = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # An ignored signal stays ignored: that is how nohup works.
    before = {number: signal.getsignal(number) for number in found}
    for number, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # as shells count

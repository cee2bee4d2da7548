"""Being told to end, from outside: Ctrl-C, SIGTERM, a closed terminal."""

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

GRACE = 2.0  # seconds for Python to come to its own handler
_CLEANING = 5.0  # seconds for what is done at the end of the process


@contextlib.contextmanager
def as_exits(interrupted: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Within, a SIGTERM or a closed terminal raises SystemExit, so that whatever is running is ended in good order.

    Left to themselves these signals would end us on the spot: a compiler or an emulator might stay behind. Ctrl-C
    raises KeyboardInterrupt, as always.

    Python calls a handler between two of its steps, and a product of large matrices is one step that takes minutes. So
    a thread is told of signals, too. Where the handler is not called for GRACE seconds, the thread ends the process: it
    calls `interrupted` after a Ctrl-C, ends child processes, removes temporary files, and leaves with the same exit
    code. (It cannot while C code holds Python's lock, which products do not.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    found = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in found}
    # An ignored signal stays ignored: that is how nohup works. A handler of others stays theirs.
    ours = [n for n, handler in before.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    watch = _Watch(ours, interrupted)
    for number in ours:
        signal.signal(number, watch.handle)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        watch.close()


class _Watch:
    """Python's handler for some signals, and the thread that acts where it is not called."""

    def __init__(self, numbers: list[int], interrupted: Callable[[], object]) -> None:
        self._numbers = numbers
        self._interrupted = interrupted
        self._handled = -GRACE  # when the handler was called last
        self._closed = False
        self._read, self._written = socket.socketpair()
        self._written.setblocking(False)
        # The C code that takes a signal writes its number here at once, whatever Python is doing.
        self._fd_before = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._listen, name="signals", daemon=True).start()

    def handle(self, number: int, frame: FrameType | None) -> None:
        self._handled = time.monotonic()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)  # as shells count

    def close(self) -> None:
        self._closed = True
        signal.set_wakeup_fd(self._fd_before)
        self._written.close()  # the thread reads the end, and ends

    def _listen(self) -> None:
        with self._read:
            while data := self._read.recv(64):
                caught = time.monotonic()
                number = next((n for n in data if n in self._numbers), None)
                if number is None:
                    continue
                time.sleep(GRACE)
                # The handler may have been called just before this thread was woken.
                if not self._closed and self._handled < caught - GRACE / 2:
                    self._end(number)

    def _end(self, number: int) -> None:
        if number == signal.SIGINT:
            self._interrupted()
        # Children are ended and temporary folders removed by functions that wait in atexit.
        cleaning = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        cleaning.start()
        cleaning.join(_CLEANING)
        os._exit(128 + number)

"""Child processes that end when we end, however we end."""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def start(command: Sequence[str | Path], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a program that is killed with this process, even if that is killed itself (on Linux).

    It gets a session of its own, so a Ctrl-C typed here reaches it only through us. Linux counts the thread that
    starts it as its parent, so start it from one that lives on.
    """
    parent = os.getpid()
    libc: Any = None
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec

    def in_child() -> None:
        if libc is not None:
            libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:  # it died before the call
                os._exit(1)

    preexec: Callable[[], None] | None = in_child if os.name == "posix" else None
    process = subprocess.Popen([str(part) for part in command], preexec_fn=preexec, start_new_session=True, **options)
    atexit.register(stop, process)
    return process


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process, if it still runs, and wait for its end. May be called twice."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()

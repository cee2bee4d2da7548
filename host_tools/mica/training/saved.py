"""The state of a training while it runs: so that Ctrl-C ends it in good order, and a second run goes on."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from mica import whole
from mica.training.optimise import Training

EVERY = 30.0  # seconds between two writes


def fingerprint(*parts: Any) -> str:
    """Return a text that differs where one of the parts does: arrays, and what has a repr."""
    h = hashlib.sha256()
    for part in parts:
        h.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        h.update(b"\0")
    return h.hexdigest()


class Saved:
    """The trainings of a run by name, in a file beside the output. key: another one makes the file worthless."""

    def __init__(self, path: Path | None, key: str) -> None:
        self._path, self._key = path, key
        self._written = time.monotonic()
        self._found: dict[str, np.ndarray] = {}
        self.trainings: dict[str, Training] = {}
        if path is not None and path.is_file():
            with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                self._found = _read(path, key)

    @property
    def goes_on(self) -> bool:
        """Say if an earlier run left something."""
        return bool(self._found)

    def add(self, name: str, training: Training) -> Training:
        """Keep a training from now on, as it was left by an earlier run."""
        state = {k.removeprefix(name + "/"): a for k, a in self._found.items() if k.startswith(name + "/")}
        if state:
            training.restore(state)
        self.trainings[name] = training
        return training

    def write(self, due: float = 0.0) -> None:
        """Write the file, whole or not at all, if the last time is `due` seconds ago. Raises MicaError."""
        if self._path is None or time.monotonic() - self._written < due:
            return
        arrays = {f"{name}/{k}": a for name, t in self.trainings.items() if t.done for k, a in t.arrays().items()}
        later = {k: a for k, a in self._found.items() if k.partition("/")[0] not in (*self.trainings, "key")}
        with whole.file(self._path) as file:
            np.savez(file, key=np.array(self._key), **later, **arrays)  # type: ignore[arg-type]
        self._written = time.monotonic()

    def forget(self) -> None:
        """Remove the file: the run is at its end."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _read(path: Path, key: str) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as f:
        return {name: f[name] for name in f.files} if str(f["key"]) == key else {}


class Stop:
    """Ctrl-C within the block ends what asks `stopped`, between two steps; a second one raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.stopped = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[Stop]:
        """Take Ctrl-C from whoever had it, who is told of it as well."""
        if threading.current_thread() is not threading.main_thread():
            yield self  # signals are the main thread's
            return
        before = signal.getsignal(signal.SIGINT)

        def handle(number: int, frame: FrameType | None) -> None:
            again, self.stopped = self.stopped, True
            try:
                if callable(before):
                    before(number, frame)
            except KeyboardInterrupt:
                if again:
                    raise

        signal.signal(signal.SIGINT, handle)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

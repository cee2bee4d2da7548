"""Signals end any command at once, also in the middle of one long step of Python's, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STUCK = """
import subprocess, sys, tempfile, types
import numpy as np
from mica.cli import main
from mica.link import child

def run(args):
    with tempfile.TemporaryDirectory(prefix="mica-") as folder:
        emulator = child.start(["sleep", "600"])
        x = np.ones((6000, 6000), np.int64)
        print(folder, emulator.pid, flush=True)
        x @ x  # minutes in one step of Python's: integers have no BLAS
        print("the product is there", flush=True)

main.find_command = lambda name: types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
sys.exit(main.main(["pack"]))
"""


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_in_the_middle_of_a_product(number: str, code: int) -> None:
    """The process ends although Python does not come to its handler, and leaves neither a child nor a file."""
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder, pid = process.stdout.readline().split()
        assert Path(folder).is_dir()
        process.send_signal(getattr(signal, number))
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == ""
    assert err == ("mica: error: interrupted\n" if number == "SIGINT" else "")
    assert not Path(folder).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


TIDY = """
import sys, time, types
from mica.cli import main

def run(args):
    try:
        print("begun", flush=True)
        time.sleep(600)
    finally:
        time.sleep(3)
        print("tidy", flush=True)

main.find_command = lambda name: types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
sys.exit(main.main(["pack"]))
"""


def test_signals_between_steps_of_python() -> None:
    """Python's handler lets running work clean up, for as long as that takes."""
    with subprocess.Popen([sys.executable, "-c", TIDY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert out == "tidy\n"

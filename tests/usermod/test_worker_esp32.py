"""worker_esp32.c where neither ESP-IDF nor a chip is: compiled for the host against a stand-in for FreeRTOS over
threads.

This shows that its C is sound and that a job is given, done elsewhere and waited for.
It does not show that it works on an ESP32.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

BINDING = Path(__file__).resolve().parents[2] / "usermod_c" / "binding"
STUB = Path(__file__).resolve().parent / "freertos"
FLAGS = ("-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-DESP_PLATFORM", f"-I{STUB}", f"-I{BINDING}")


def test_jobs_are_done_by_the_other_task(tmp_path: Path) -> None:
    program = tmp_path / "drive"
    sources = [STUB / "drive.c", BINDING / "worker_esp32.c"]
    subprocess.run(["gcc", *FLAGS, *map(str, sources), "-pthread", "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "refused 0",
        "ready 1 1 core 0 tasks 1",
        "sum 499500 tasks 0",
        "stopped 0, again 1, tasks 1",
    ]


@pytest.mark.parametrize(("more", "has"), [((), True), (("-DCONFIG_FREERTOS_UNICORE=1",), False)])
def test_only_where_there_are_two_cores(more: tuple[str, ...], has: bool, tmp_path: Path) -> None:
    """On a C3 the file is empty, and worker_none.c has the functions instead."""
    (tmp_path / "py").mkdir()
    (tmp_path / "py" / "mpconfig.h").write_text("#define MICROPY_PY_THREAD 1\n")
    defined = {}
    for name in ("worker_esp32", "worker_none"):
        out = tmp_path / f"{name}.o"
        command = [
            "gcc",
            *FLAGS,
            *more,
            "-U__unix__",
            f"-I{tmp_path}",
            "-c",
            str(BINDING / f"{name}.c"),
            "-o",
            str(out),
        ]
        subprocess.run(command, check=True)
        symbols = subprocess.run(["nm", out], capture_output=True, text=True, check=True).stdout
        defined[name] = " T mica_worker_give" in symbols
    assert defined == {"worker_esp32": has, "worker_none": not has}

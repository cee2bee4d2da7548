"""A command reads the ONNX file once, and makes and checks the bytes of a model no more often than it needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mica
from mica.cli.main import main
from mica.compile import finish, planning
from mica.file import codec
from mica.importer import onnx_file

DEMO = Path(mica.__file__).parent / "demo"
DIGITS, CALIB, TEST = (str(DEMO / name) for name in ("digits.onnx", "digits_calib.npz", "digits_test.npz"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of calls of each function."""
    found: Counter[str] = Counter()

    def count(module: Any, name: str, what: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            found[what] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    count(onnx_file, "_read", "import")
    count(planning, "encode", "encode")
    count(finish, "encode", "encode")
    count(codec, "decode", "decode")  # an encode ends in one
    return found


@pytest.mark.parametrize(
    ("options", "encodes"),
    [
        ([], 1),
        (["--board", "RPI_PICO"], 1),
        (["--golden", "2"], 2),  # one to run the vectors, one to write
        (["--golden", "2", "--eval", TEST], 2),
    ],
)
def test_pack(tmp_path: Path, calls: Counter[str], options: list[str], encodes: int) -> None:
    packed = str(tmp_path / "m.mica")
    assert main(["pack", DIGITS, "--calib", CALIB, "--plain", "-o", packed, "--json", *options]) == 0
    assert calls == {"import": 1, "encode": encodes, "decode": encodes + 1}  # the written file is measured


def test_fit(calls: Counter[str]) -> None:
    assert main(["fit", DIGITS, "--calib", CALIB, "--board", "RPI_PICO", "--json"]) == 0
    assert calls == {"import": 1, "encode": 1, "decode": 1}


def test_run(tmp_path: Path, calls: Counter[str]) -> None:
    packed = str(tmp_path / "m.mica")
    assert main(["pack", DIGITS, "--plain", "-o", packed, "--json"]) == 0
    calls.clear()
    assert main(["run", packed, TEST, "--json"]) == 0
    assert calls == {"decode": 1}

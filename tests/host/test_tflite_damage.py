"""A short soak of damaged .tflite files, and some that once made trouble."""

from __future__ import annotations

import sys
from pathlib import Path

import damaged_tflite
import numpy as np
import pytest
import soak_parts
from tflite_files import Tflite
from tflite_nets import NETS

FILES = 200


def test_damaged_files() -> None:
    figures = damaged_tflite.run(FILES, seed=0)
    assert figures["files"] == FILES
    assert min(figures["refused"], figures["packed"]) > FILES // 30


def test_as_a_part_of_the_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_parts, "TFLITE_FILES", 100)
    found = soak_parts.Found()
    soak_parts.tflite(soak_parts.Settings(0.1, 1, 1, ()), found)
    (figures,) = found.figures.values()
    assert (figures["files"], figures["crashes"], found.problems) == (100, 0, [])


def test_what_is_good_packs(tmp_path: Path) -> None:
    for name, make in NETS.items():
        path = tmp_path / "net.tflite"
        path.write_bytes(make())
        assert damaged_tflite.verdict(path) == "packed", name


@pytest.mark.parametrize("name", ("classifier", "lstm"))
def test_cut_at_many_lengths(tmp_path: Path, name: str) -> None:
    good, path = NETS[name](), tmp_path / "net.tflite"
    for length in range(8, len(good), len(good) // 60):
        path.write_bytes(good[:length])
        assert "damaged" in damaged_tflite.verdict(path)


def test_a_dimension_that_is_a_real_number(tmp_path: Path) -> None:
    net, path = Tflite(), tmp_path / "net.tflite"
    x, parts = net.tensor([1, 4], "float32"), [net.tensor([1, 2], "float32") for _ in range(2)]
    net.operator("SPLIT", [net.constant(np.array([1.0], np.float32)), x], parts, "SplitOptions", {"num_splits": 2})
    path.write_bytes(net.bytes([x], parts))
    assert "the dimensions [1.0] of a tensor of 2" in damaged_tflite.verdict(path)


def test_a_traceback_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(damaged_tflite, "compile_file", broken)
    (tmp_path / "net.tflite").write_bytes(NETS["svdf"]())
    with pytest.raises(damaged_tflite.Found, match="IndexError"):
        damaged_tflite.verdict(tmp_path / "net.tflite")


@pytest.mark.skipif(sys.platform != "linux", reason="no other system limits a process's address space")
def test_much_memory_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_tflite, "compile_file", lambda path: np.empty(2 * damaged_tflite.MOST_BYTES, np.int8))
    (tmp_path / "net.tflite").write_bytes(NETS["svdf"]())
    with pytest.raises(damaged_tflite.Found, match="took more than 256 MB"), damaged_tflite.bounded():
        damaged_tflite.verdict(tmp_path / "net.tflite")
    assert damaged_tflite.verdict(tmp_path / "net.tflite") == "packed"

"""Packed models that several end-to-end tests use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import DEMO, pack


@pytest.fixture(scope="session")
def digits_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a streaming model: it is given a picture row by row."""
    folder = tmp_path_factory.mktemp("rows")
    arrays = dict(np.load(DEMO / "digits_calib.npz"))
    arrays["x"] = arrays["x"][:64].reshape(-1, 1, 1, 8)  # consecutive runs
    np.savez(folder / "rows.npz", **arrays)
    window = "--window", f"{onnx.load(DEMO / 'digits.onnx').graph.input[0].name}:2=1"
    return pack(DEMO / "digits.onnx", folder / "rows.mica", "--calib", folder / "rows.npz", *window, "--golden", "9")


@pytest.fixture(scope="session")
def digits_fed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the picture fed, in little memory."""
    to = tmp_path_factory.mktemp("fed") / "digits.mica"
    small = "--feed", "--ram", "4300"
    return pack(DEMO / "digits.onnx", to, "--calib", DEMO / "digits_calib.npz", "--plain", "--golden", "2", *small)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, packed."""
    to = tmp_path_factory.mktemp("packed") / "digits.mica"
    return pack(
        DEMO / "digits.onnx", to, "--calib", DEMO / "digits_calib.npz", "--labels", DEMO / "labels.txt", "--golden", "2"
    )

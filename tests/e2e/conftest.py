"""Packed models that several end-to-end tests use."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import DEMO, pack


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, packed."""
    to = tmp_path_factory.mktemp("packed") / "digits.mica"
    return pack(
        DEMO / "digits.onnx", to, "--calib", DEMO / "digits_calib.npz", "--labels", DEMO / "labels.txt", "--golden", "2"
    )

"""The report page in Debian's Chromium, driven by playwright-core of npm: no error, no request,
readable wide and narrow."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import npm_packages
import numpy as np
import pytest
from PIL import Image

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEMO = ROOT / "host_tools" / "mica" / "demo"
MODELS = ROOT.parent / "shared" / "models"


def look(page: Path, picture: Path) -> list[dict[str, Any]]:
    """Return the report of look.mjs about a page."""
    browser = shutil.which("chromium")
    assert browser, "scripts/setup installs chromium"
    found: list[dict[str, Any]] = json.loads(npm_packages.run(HERE / "look.mjs", page, browser, picture))
    return found


def mica(*words: object) -> str:
    command = [sys.executable, "-m", "mica", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=900).stdout


def check(page: Path, tmp_path: Path) -> None:
    facts = json.loads(mica("report", page.with_suffix(".mica"), "-o", page, "--json"))
    seen = look(page, tmp_path / "page.png")
    assert len(seen) == 4 and (tmp_path / "page.png").stat().st_size > 10_000
    for view in seen:
        assert view["errors"] == view["requests"] == [], view
        assert view["facts"] == facts and view["rows"] == len(facts["layers"]) and view["title"].endswith(": mica")
        assert view["overflow"] <= 0, "a page that has to be pushed sideways"
        assert view["unnamed"] == 0 and {"layers", "arena", "graph"} <= set(view["focused"])
        light = view["colorScheme"] == "light"
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(view["arena"]))).convert("L"), float) / 255
        assert (np.median(pixels) > 0.8) if light else (np.median(pixels) < 0.2), "the picture of the memory"
        assert pixels.std() > 0.05, "nothing to see in it"
        narrow = view["width"] == 390
        for region in view["regions"]:  # a hint while there is more to the right, on a phone
            assert region["hints"] == [narrow and region["wide"], False], region
        assert not narrow or [r["wide"] for r in view["regions"] if r["name"] == "layers"] == [True]
        assert (view["back"] > 0.8 and view["ink"] < 0.3) if light else (view["back"] < 0.2 and view["ink"] > 0.7)


def test_digits(tmp_path: Path) -> None:
    mica("pack", DEMO / "digits.onnx", "--calib", DEMO / "digits_calib.npz", "--plain", "-o", tmp_path / "digits.mica")
    check(tmp_path / "digits.html", tmp_path)


@pytest.mark.skipif(not MODELS.exists(), reason="the folder ../shared/models is missing")
@pytest.mark.parametrize(("name", "options"), [("kws", []), ("ic", ["--ram", "19500"])])
def test_reference_models(name: str, options: list[str], tmp_path: Path) -> None:
    mica("pack", MODELS / name / "model_qdq.onnx", "-o", tmp_path / f"{name}.mica", *options)
    check(tmp_path / f"{name}.html", tmp_path)

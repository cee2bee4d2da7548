"""Writes host_tools/report.png: the report page of the digits, as Chromium shows it; host_tools/GUIDE.md has it.

To be run, and its result committed, when the page changes. The digits are packed with --report and seen with the demo's labelled data.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import npm_packages  # noqa: E402

DEMO = ROOT / "host_tools" / "mica" / "demo"


def _mica(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "mica", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/screenshot", description=__doc__)
    parser.add_argument("-o", metavar="F.png", type=Path, default=ROOT / "host_tools" / "report.png")
    out = parser.parse_args().o.resolve()
    browser = shutil.which("chromium")
    if browser is None:
        print("screenshot: no chromium; scripts/setup installs it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        model, page = Path(folder) / "digits.mica", Path(folder) / "digits.html"
        _mica("pack", DEMO / "digits.onnx", "--calib", DEMO / "digits_calib.npz", "-o", model)
        _mica("report", model, "--data", DEMO / "digits_test.npz", "-o", page)
        npm_packages.run(ROOT / "tests" / "browser" / "look.mjs", page, browser, out)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Memory of the host: packing a large model takes at most three times its file and 100 MB over the bare imports, and a
small one 100 MB in all.

The whole command runs in a process of its own. VmHWM is the most that it ever had in memory; unlike ru_maxrss it does
not begin with what the parent had.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zoo
from targets import ALL

IMPORTS = """
import numpy, onnx, onnx.reference, onnxruntime
import mica.cli.pack, mica.compile, mica.run.evaluation, mica.run.float_model, mica.run.host
"""
PACK = """
import sys
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
from mica.cli.main import main
code = main(sys.argv[1:])
print(peak() - before, peak(), file=sys.stderr)
sys.exit(code)
"""
KWS = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "kws"


def pack_and_measure(imports: str, *words: str) -> tuple[int, int]:
    """Bytes that `mica pack` needed over what was imported before, and in all."""
    done = subprocess.run(
        [sys.executable, "-c", imports + PACK, "pack", *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    over, of_all = done.stderr.splitlines()[-1].split()
    return int(over), int(of_all)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures by /proc")
@pytest.mark.skipif(not KWS.is_dir(), reason="the folder ../shared/models/kws is missing")
def test_memory_of_a_small_model(tmp_path: Path) -> None:
    """Python, numpy and onnx take 55 MB of it."""
    model, calibration = (str(KWS / name) for name in ("model.onnx", "calib.npz"))
    _, used = pack_and_measure("", model, "--calib", calibration, "-o", str(tmp_path / "kws.mica"))
    assert used <= 100_000_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures by /proc")
@pytest.mark.parametrize(
    ("name", "calibrated"),
    [("mobilenet_v2", True), ("resnet50", False)] + [("mobilenet_v2", False), ("resnet50", True)] * ALL,
)
def test_memory_of_pack(name: str, calibrated: bool, tmp_path: Path) -> None:
    net = getattr(zoo, name)()
    path = net.save(tmp_path, f"{name}.onnx")
    words = [str(path), "-o", str(tmp_path / "m.mica")]
    if calibrated:
        np.savez(tmp_path / "x.npz", x=np.concatenate([s["x"] for s in net.samples(4)]))
        words += ["--calib", str(tmp_path / "x.npz")]
    del net
    (used, _), allowed = pack_and_measure(IMPORTS, *words), 3 * os.path.getsize(path) + 100_000_000
    print(f"{name}: {used / 1e6:.0f} MB over the imports, {allowed / 1e6:.0f} allowed")
    assert used <= allowed

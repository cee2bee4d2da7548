"""`mica pack` gives the same bytes whichever float kernels a machine has: packs models under each setting and compares.

    scripts/same_bytes              the digits, and the models of ../shared/models: ten minutes on a quiet core
    scripts/same_bytes digits kws   some of them

Settings: OpenBLAS's kernels for four kinds of processors (those that this one can execute), one and two threads,
and numpy without the SIMD that it chooses at run time. Each runs in a process of its own, which also says what was in
effect, and what mica's elementary functions give. The exit code is 1 where two differ, or where a setting had no
effect.
"""

import argparse
import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[attr-defined]

DEMO = Path(__file__).resolve().parent.parent / "host_tools" / "mica" / "demo"
MODELS = Path(os.environ.get("MICA_MODELS", Path(__file__).resolve().parent.parent.parent / "shared" / "models"))
# What the processor must have, and what OpenBLAS then says that it took.
NAMES = ("digits", "kws", "ic", "vww", "ad")
CORES = {
    "Prescott": ("PNI", ("Prescott", "Katmai")),
    "Nehalem": ("SSE42", ("Nehalem",)),
    "Haswell": ("AVX2", ("Haswell",)),
    "SkylakeX": ("AVX512F", ("SkylakeX",)),
}
FEATURES = [name for name in __cpu_dispatch__ if __cpu_features__[name]]


@dataclass(frozen=True)
class Setting:
    """core: OpenBLAS's name of a processor, None for the machine's own."""

    core: str | None = None
    threads: int = 1
    simd: bool = True

    def __str__(self) -> str:
        return f"{self.core or 'own core'}, {self.threads} threads{'' if self.simd else ', no SIMD'}"

    @property
    def environment(self) -> dict[str, str]:
        more = {"OPENBLAS_NUM_THREADS": str(self.threads)}
        if self.core:
            more["OPENBLAS_CORETYPE"] = self.core
        if not self.simd:
            more["NPY_DISABLE_CPU_FEATURES"] = " ".join(FEATURES)
        return os.environ | more


def cores() -> list[str]:
    """Return the part of CORES whose kernels this machine can execute, and that do not crash (numpy 2.5's Prescott
    do)."""
    found, product = _flags(), "import numpy as np; x = np.ones((1000, 72), np.float32); x.T @ x"
    result = []
    for core in (core for core, (flag, _) in CORES.items() if flag in found):
        done = subprocess.run([sys.executable, "-c", product], env=Setting(core).environment, check=False)
        if done.returncode == 0:
            result.append(core)
        else:
            print(f"OpenBLAS's kernels of {core} end a process with exit code {done.returncode}", file=sys.stderr)
    return result


def _flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    line = next((part for part in text.splitlines() if part.startswith("flags")), "")
    return {flag.upper().replace("SSE4_2", "SSE42") for flag in line.split()}


def all_settings() -> list[Setting]:
    return [*(Setting(core) for core in cores()), Setting(threads=2), Setting(simd=False)]


def files(name: str) -> tuple[Path, Path]:
    """(model, calibration samples)."""
    if name == "digits":
        return DEMO / "digits.onnx", DEMO / "digits_calib.npz"
    return MODELS / name / "model.onnx", MODELS / name / "calib.npz"


def start(name: str, setting: Setting) -> subprocess.Popen[str]:
    """A process that packs a model and prints `facts` as JSON."""
    command = [sys.executable, __file__, "--one", name]
    return subprocess.Popen(command, env=setting.environment, stdout=subprocess.PIPE, text=True)


def facts(name: str) -> dict[str, object]:
    """Hashes of this process's results, and the libraries that computed them."""
    from mica.cli.main import main

    model, calibration = files(name)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "m.mica"
        words = ["pack", str(model), "--calib", str(calibration), "--golden", "4", "-o", str(out), "--json"]
        stdout = os.dup(1)
        os.dup2(2, 1)  # the report is not ours
        try:
            status = main(words)
            sys.stdout.flush()
        finally:
            os.dup2(stdout, 1)
        if status:
            raise SystemExit(status)
        data = out.read_bytes()
    core, threads = openblas()
    enabled = [f for f in __cpu_dispatch__ if __cpu_features__[f]]
    return {
        "file": hashlib.sha256(data).hexdigest(),
        "functions": functions(),
        "core": core,
        "threads": threads,
        "simd": enabled,
    }


def functions() -> str:
    """Hash of the results of the elementary functions."""
    from mica.reference import functions as f

    x = np.random.default_rng(0).normal(0.0, 3.0, 20_000)
    digest = hashlib.sha256()
    for of in (
        f.exp,
        f.expm1,
        f.log,
        f.log1p,
        f.sinh,
        f.cosh,
        f.tanh,
        f.asinh,
        f.acosh,
        f.atanh,
        f.atan,
        f.asin,
        f.acos,
    ):
        digest.update(of(x).tobytes())
    for of in (f.sin, f.cos, f.tan, f.erf):
        digest.update(of(x).tobytes())
    digest.update(f.power(np.abs(x), x).tobytes())
    return digest.hexdigest()


def openblas() -> tuple[str | None, int | None]:
    """(kernels, threads) of numpy's own OpenBLAS; None where it came without."""
    folder = Path(np.__file__).resolve().parent.parent / "numpy.libs"
    for path in folder.glob("*openblas*"):
        library = ctypes.CDLL(str(path))
        name = getattr(library, "scipy_openblas_get_corename64_", None)
        if name is not None:
            name.restype = ctypes.c_char_p
            return name().decode(), library.scipy_openblas_get_num_threads64_()
    return None, None


def without_effect(setting: Setting, found: dict[str, object]) -> list[str]:
    """Sentences, one for each part of a setting that had no effect in the process."""
    result = []
    if setting.core and found["core"] not in (None, *CORES[setting.core][1]):
        result.append(f"{setting}: OpenBLAS took the kernels of {found['core']}")
    if found["threads"] not in (None, min(setting.threads, os.cpu_count() or 1)):
        result.append(f"{setting}: OpenBLAS took {found['threads']} threads")
    if not setting.simd and found["simd"]:
        result.append(f"{setting}: numpy kept {found['simd']}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"{', '.join(NAMES)}; default: those that are there")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(facts(args.one)))
        return 0
    names = args.models or [n for n in NAMES if files(n)[0].is_file()]
    bad = 0
    for name in names:
        seen: dict[tuple[object, object], list[str]] = {}
        for setting in all_settings():
            process = start(name, setting)
            text, _ = process.communicate()
            if process.returncode:
                print(f"{name}: {setting}: exit code {process.returncode}")
                return 1
            found = json.loads(text)
            for sentence in without_effect(setting, found):
                print(f"{name}: {sentence}")
                bad = 1
            seen.setdefault((found["file"], found["functions"]), []).append(str(setting))
            print(f"{name:7} {found['file']}  {setting}", flush=True)
        if len(seen) > 1:
            print(f"{name}: {len(seen)} different files")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())

"""The quality line of `mica pack` beside the packed file's quality on a thousand other samples, as a table in Markdown.

    python tests/quality_table.py [-o TABLE.md] [PART-OF-A-NAME ...]

Models: the reference models with their eval data; those of `tests/models` with more samples of their training data, if
there are any; and those of `../shared/trials`, whose calibration data is cut in two.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from mica.compile import compile_file, quality
from mica.data.calibration import load_calibration, samples_for
from mica.errors import MicaError
from mica.importer import import_model
from mica.run import evaluation

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "models"))
import exporting  # noqa: E402

SHARED = next((p for p in (ROOT.parent / "shared", ROOT.parent.parent / "shared") if p.is_dir()), ROOT / "shared")
UNSEEN = 1000
FEW = 40
SEED = 77  # none of those of tests/models
WITHIN = 3.0  # dB


def models() -> Iterator[tuple[str, Path, Path, Path | None]]:
    """(name, model, calibration data, other samples)."""
    for name in ("kws", "ic", "vww", "ad"):
        folder = SHARED / "models" / name
        yield name, folder / "model.onnx", folder / "calib.npz", folder / "eval.npz"
    for path in sorted((ROOT / "tests" / "models").glob("*/*.onnx")):
        yield path.stem, path, path.with_suffix(".npz"), None
    for folder in sorted((SHARED / "trials").glob("*")):
        if (folder / "model.onnx").is_file():
            for calib in sorted(folder.glob("calib*.npz")):
                yield f"{folder.name} {calib.stem}", folder / "model.onnx", calib, None


def unseen(name: str, inputs: Mapping[str, tuple[int, ...]], calib: Path, other: Path | None) -> dict[str, np.ndarray]:
    """Samples that the calibration data does not hold, by input."""
    if other is not None:
        (i,) = inputs
        data = evaluation.load(other)
        x = np.concatenate(list(data.first(64 if data.window else None).inputs(inputs[i], i)))
        return {i: x[np.random.default_rng(1).permutation(len(x))[:UNSEEN]]}
    stored = np.load(calib)
    found = {i: np.asarray(stored[f"test/{i}"], np.float32) for i in inputs}
    if (
        min(len(x) for x in found.values()) < FEW
    ):  # of tests/models/exporting.py; data sets of scikit-learn have no more
        shapes = {i: x.shape[1:] for i, x in found.items()}
        made = {i: again(name, shape, SEED + k) for k, (i, shape) in enumerate(shapes.items())}
        found = {i: x for i, x in made.items() if x is not None} if all(x is not None for x in made.values()) else found
    return found


def again(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray | None:
    """A thousand more of the samples that the exported models were trained on."""
    if name.startswith("sklearn"):
        return None
    if len(shape) == 3:
        last = shape[0] == shape[1]
        channels, size = (shape[2], shape[0]) if last else (shape[0], shape[1])
        coarse = 2 if "pixelshuffle" in name else 1
        x = exporting.pictures(UNSEEN, channels, size * coarse, seed, noise=0 if coarse > 1 or "unet" in name else 0.3)[
            0
        ]
        if coarse > 1:
            x = exporting.on_grid(x.reshape(UNSEEN, 1, size, 2, size, 2).mean(axis=(3, 5)))
        if "unet" in name:
            x = exporting.on_grid(x + np.random.default_rng(seed).normal(0, 0.5, x.shape))
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x
    if "embedding" in name:
        return exporting.tokens(UNSEEN, shape[0], 64, seed)[0].astype(np.float32)
    if "step" in name and shape[-1] == 16:
        return exporting.on_grid(np.random.default_rng(seed).normal(0, 0.4, (UNSEEN, *shape)))
    channels, length = (
        (1, shape[0]) if len(shape) == 1 else shape if shape[0] < shape[1] and shape[0] > 1 else shape[::-1]
    )
    x = exporting.series(UNSEEN, channels, length, seed)[0]
    return x.transpose(0, 2, 1).copy() if x.shape[1:] != shape and len(shape) == 2 else x.reshape(UNSEEN, *shape)


def row(name: str, model: Path, calib: Path, other: Path | None) -> list[str]:
    stored = np.load(calib)
    names = import_model(model).inputs
    arrays = load_calibration(calib, names) if other else {i: np.asarray(stored[i], np.float32) for i in names}
    others = {}
    if "test/" not in " ".join(stored) and other is None:  # no others: two of five calibrate, three of five are unseen
        for i, x in arrays.items():
            first = np.arange(len(x)) % 5 < 2
            arrays[i], others[i] = x[first], x[~first]
    compiled = compile_file(model, arrays)
    said = quality.measure(compiled)
    inputs = {i: compiled.core.value(i).shape for i in compiled.core.inputs}
    samples = samples_for(compiled.core, others or unseen(name, inputs, calib, other))
    true = quality._measure(compiled, samples, "eval")
    if said is None:
        return [name, "-", "-", "no figure"]
    a, b = said.facts(), true.facts()
    if a["cannot_tell"] or a["sqnr_db"] is None:
        verdict = a["cannot_tell"] or "no ratio"
    else:
        verdict = "within 3 dB" if b["sqnr_db"] is not None and abs(a["sqnr_db"] - b["sqnr_db"]) <= WITHIN else "OFF"
    return [
        name, _db(a), _db(b), _share(a), _share(b), str(a["samples"]), str(b["samples"]), verdict,
    ]  # fmt: skip


def _db(q: dict[str, float | None]) -> str:
    unsure = "" if q["plus_minus_db"] is None else f" +/- {q['plus_minus_db']:.1f}"
    return "-" if q["sqnr_db"] is None else f"{q['sqnr_db']:.1f}{unsure}"


def _share(q: dict[str, float | None]) -> str:
    return "-" if q["agreement"] is None else f"{100 * q['agreement']:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("parts", nargs="*")
    args = parser.parse_args()
    head = ["model", "SQNR said", "unseen", "same answer said", "unseen", "samples", "unseen", ""]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, model, calib, other in models():
        if args.parts and not any(p in name for p in args.parts):
            continue
        try:
            lines.append("| " + " | ".join(row(name, model, calib, other)) + " |")
        except MicaError as e:
            lines.append(f"| {name} | not packed: {str(e).splitlines()[0][:80]} |" + " |" * (len(head) - 2))
        print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

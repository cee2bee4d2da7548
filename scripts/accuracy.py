"""The acceptance table: each reference model as float, as ONNX Runtime quantises it, and as `mica pack` does.

    scripts/accuracy                    all models of ../shared/models, about two minutes
    scripts/accuracy kws ad --no-data   some, also without calibration data
    scripts/accuracy --markdown         the table for the README

Whole evaluation sets; every number of a model is measured in one run, on the same samples, mica's on the host engine
with the default settings of `mica pack --calib calib.npz`. ONNX Runtime runs model_qdq.onnx (its own static
quantisation, calibrated on the same calib.npz) with session.x64quantprecision, without which its x86 kernels saturate.

    SQNR      10 log10(sum y**2 / sum (y - y')**2) in dB; y the float model's outputs over the whole set, y' the
              system's dequantised ones. Of the model's output: probabilities, for a classifier.
    differs   samples whose top class is not the float model's

Bounds: metric at most 0.5 points (AUC 0.005) below float; SQNR at most 0.3 dB below ONNX Runtime's; at most 3
samples more that differ than ONNX Runtime has. The exit code is 1 where one is broken.
"""

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.cli import text
from mica.compile import Compiled, compile_file
from mica.compile.layer_errors import sqnr_db
from mica.data.calibration import load_calibration
from mica.run import evaluation
from mica.run.evaluation import Dataset, Predict, Score
from mica.run.float_model import FloatModel
from mica.run.host import HostRunner

MODELS = Path(os.environ.get("MICA_MODELS", Path(__file__).resolve().parent.parent.parent / "shared" / "models"))
SETS = {"kws": ("eval",), "ic": ("eval", "eval_jpeg"), "vww": ("eval",), "ad": ("eval",)}

FLOAT, ORT, MICA = "float", "ONNX Runtime QDQ", "mica"
PLAIN, NO_DATA = "mica --plain --calib-method minmax", "mica, no calibration data"

METRIC_LOSS = 0.005  # half a point, or AUC
SQNR_LOSS = 0.3  # dB
MORE_DIFFER = 3  # samples


@dataclass(frozen=True)
class Row:
    """One system on one data set. differs: None where the metric knows no classes."""

    model: str
    data: str
    system: str
    metric: str
    value: float
    samples: int
    sqnr_db: float | None
    differs: int | None


class _Kept:
    """A predict that keeps all its outputs."""

    def __init__(self, predict: Predict) -> None:
        self.predict = predict
        self.parts: list[np.ndarray] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        y = self.predict(x)
        self.parts.append(np.asarray(y, np.float32).reshape(len(x), -1))
        return y

    @property
    def outputs(self) -> np.ndarray:
        return np.concatenate(self.parts)


def onnx_predict(path: Path) -> Predict:
    """All samples of a batch in one call; the models' batch dimension is dynamic."""
    session = FloatModel(path).session
    name = session.get_inputs()[0].name
    return lambda x: np.asarray(session.run(None, {name: x.reshape(len(x), *x.shape[2:])})[0])


@functools.cache
def compiled(folder: Path, system: str) -> Compiled:
    model = folder / "model.onnx"
    if system == NO_DATA:
        return compile_file(model)
    calibration = load_calibration(folder / "calib.npz", ["input"])
    if system == PLAIN:
        return compile_file(model, calibration, plain=True, calib_method="minmax")
    return compile_file(model, calibration)


def measure(folder: Path, data_name: str, systems: Sequence[str] = (MICA,)) -> list[Row]:
    """Rows of one data set: float, ONNX Runtime, and the systems asked for."""
    data = evaluation.load(folder / f"{data_name}.npz")
    models = {system: compiled(folder, system) for system in systems}
    shape = models[systems[0]].core.value("input").shape
    exact, score = _score(data, shape, onnx_predict(folder / "model.onnx"))
    rows = [_row(folder, data_name, FLOAT, score, score, None)]

    def add(system: str, predict: Predict) -> None:
        found, its = _score(data, shape, predict)
        rows.append(_row(folder, data_name, system, its, score, sqnr_db(exact, found)))

    add(ORT, onnx_predict(folder / "model_qdq.onnx"))
    for system, model in models.items():
        with HostRunner(model.data) as runner:
            add(system, runner.predict)
    return rows


def _score(data: Dataset, shape: tuple[int, ...], predict: Predict) -> tuple[np.ndarray, Score]:
    kept = _Kept(predict)
    score = evaluation.evaluate(data, shape, kept)
    return kept.outputs, score


def _row(folder: Path, data: str, system: str, score: Score, exact: Score, sqnr: float | None) -> Row:
    differs = int(np.sum(score.decisions != exact.decisions)) if score.metric == "top1" else None
    return Row(folder.name, data, system, score.metric, score.value, len(score.decisions), sqnr, differs)


def broken(rows: Sequence[Row]) -> list[str]:
    """Sentences, one for each bound that the rows of one data set break."""
    by = {row.system: row for row in rows}
    exact, ort, mica = by[FLOAT], by[ORT], by[MICA]
    assert ort.sqnr_db is not None
    assert mica.sqnr_db is not None
    where = f"{mica.model} {mica.data}"
    result = []
    if mica.value < exact.value - METRIC_LOSS - 1e-9:
        result.append(f"{where}: {mica.metric} {mica.value:.4f}; float has {exact.value:.4f}")
    if mica.sqnr_db < ort.sqnr_db - SQNR_LOSS:
        result.append(f"{where}: SQNR {mica.sqnr_db:.2f} dB; ONNX Runtime has {ort.sqnr_db:.2f}")
    if mica.differs is not None and ort.differs is not None and mica.differs > ort.differs + MORE_DIFFER:
        result.append(f"{where}: {mica.differs} answers differ from float; {ort.differs} of ONNX Runtime's do")
    return result


def table(rows: Sequence[Row], markdown: bool = False) -> str:
    head = ("model", "data", "system", "metric", "value", "SQNR dB", "differs", "samples")
    cells = [
        (
            r.model,
            r.data,
            r.system,
            r.metric,
            f"{r.value:.4f}",
            "" if r.sqnr_db is None else f"{r.sqnr_db:.2f}",
            "" if r.differs is None or r.system == FLOAT else str(r.differs),
            text.count(r.samples),
        )
        for r in rows
    ]
    if not markdown:
        return text.table(head, cells, "llllrrrr")
    lines = [head, tuple("---" for _ in head), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(SETS)}; default: all")
    parser.add_argument("--no-data", action="store_true", help="also without calibration data")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    args = parser.parse_args()
    for name in args.models:
        if name not in SETS:
            parser.error(f"{name}: expected some of {', '.join(SETS)}")
    if not MODELS.is_dir():
        print(f"{MODELS} is missing: the reference models are not part of the repository", file=sys.stderr)
        return 1
    systems = (PLAIN, *((NO_DATA,) if args.no_data else ()), MICA)
    rows: list[Row] = []
    failures: list[str] = []
    for name in args.models or SETS:
        for data in SETS[name]:
            print(f"{name} {data}", file=sys.stderr)
            found = measure(MODELS / name, data, systems)
            failures += broken(found)
            rows += found
    print(table(rows, args.markdown))
    for failure in failures:
        print(f"BROKEN: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""From an ONNX file to the bytes of a model: the stages in order, and what a report needs of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica import __version__
from mica.calibration import default_samples, samples_for
from mica.errors import Unsupported
from mica.format.codec import ModelFile
from mica.format.schema import SCRATCH_LIMIT
from mica.importer.onnx_file import file_sha256, import_onnx
from mica.ir.graph import Graph, printable
from mica.pack.pack import pack
from mica.passes import pipeline
from mica.plan.plan import Plan, best_plan
from mica.quantise.params import undetermined
from mica.quantise.quantise import quantise
from mica.quantise.tune import AUTO, Tuned, tune, untouched

Progress = Callable[[str, int, int], None]  # (what, done, of)


@dataclass(frozen=True)
class Compiled:
    """A packed model, and the graphs it came from for reports and tests."""

    data: bytes
    model: ModelFile
    plan: Plan
    core: Graph  # float core operators, whose activations are those of the integer graph (channels equalised)
    tuned: Tuned
    integer: Graph  # kernels
    macs: int
    weight_bytes: int


def compile_model(
    path: str | Path,
    calibration: Mapping[str, np.ndarray] | None = None,
    shapes: Mapping[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    calib_method: str = AUTO,
    plain: bool = False,
    scratch_limit: int = SCRATCH_LIMIT,
) -> Compiled:
    """Compiles `path`.

    calibration: input name -> float32 samples [n, ...input shape without the batch]; None takes made-up samples, which
    costs accuracy, unless the model is quantised already. shapes: sizes of dynamic dimensions. warn: hears of what a
    person should know. calib_method: of `quantise.tune.CHOICES`. plain: ranges and nearest integers only, to compare.
    scratch_limit: bytes of RAM that speed may cost.
    Raises MicaError and Unsupported, naming the file.
    """
    path = Path(path)
    imported = import_onnx(path, shapes)
    try:
        core = pipeline.run(imported)
        unknown = undetermined(core)  # none in a model that is quantised already
        if unknown and calibration is None and warn is not None:
            warn(_made_up(core, unknown))
        samples = samples_for(core, calibration) if calibration is not None else default_samples(core)
        step = None if progress is None else (lambda done, of: progress("calibrating", done, of))
        full = calibration is not None and not plain
        tuned = tune(core, samples, calib_method, full, step) if unknown else untouched(core)
        integer = quantise(tuned.graph, tuned.ranges)
    except Unsupported as e:
        raise Unsupported(f"{path}: {e}", e.reasons) from None
    integer, layout = best_plan(integer)
    facts = {
        "name": printable(path.stem),
        "producer": f"mica {__version__}",
        "source": printable(path.name),
        "source_sha256": file_sha256(path),
        **(metadata or {}),
    }
    model, data = pack(integer, layout, facts, scratch_limit=scratch_limit)
    return Compiled(
        data=data,
        model=model,
        plan=layout,
        core=tuned.exact,
        tuned=tuned,
        integer=integer,
        macs=sum(s.macs for s in model.steps),
        weight_bytes=weight_bytes(model),
    )


def _made_up(core: Graph, unknown: Sequence[str]) -> str:
    """The warning that ranges come from made-up inputs; of a partly quantised model, where."""
    text = "no --calib: ranges come from made-up inputs; give real samples for real accuracy"
    makers = {o: node.name for node in core.nodes for o in node.outputs}
    names = list(dict.fromkeys(makers.get(name, name) for name in unknown))
    if any(v.quant is not None for v in core.values.values()):
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        text += f". The model leaves open the ranges of: {shown}"
    return text


def weight_bytes(model: ModelFile) -> int:
    """Bytes of all constants of all steps: weights, biases, multipliers, tables."""
    return sum(b.nbytes for s in model.steps for b in s.blobs.values())

"""Helpers of make_torch.py, make_keras.py and make_sklearn.py: small data sets, the sidecar files, the README's table.

Beside each `exports/<name>.onnx` lies `exports/<name>.npz`, with these arrays:

    <input>          32 calibration samples, so that `mica pack --calib` takes the file as it is
    test/<input>     16 other samples
    test/<output>    what the framework itself (not ONNX Runtime) answers to those
    about            JSON text: exporter, the versions of all packages that matter, options, max_difference

Samples lie along axis 0. A file with a fixed batch of 1 takes them one by one.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

CALIBRATION_SAMPLES = 32
TEST_SAMPLES = 16
TOLERANCE = 1e-4  # ONNX Runtime against the framework, of max(1, the largest output)
LARGEST = 60_000  # bytes of one ONNX file
OUT = Path(__file__).resolve().parent / "exports"
CLASSES = 4
STEP = 1 / 8  # all samples are multiples of it, so that the sidecars compress

Arrays = dict[str, np.ndarray]


def on_grid(x: np.ndarray) -> np.ndarray:
    """x as float32, rounded to multiples of STEP in [-2, 2]."""
    return (np.round(np.clip(x, -2, 2) / STEP) * STEP).astype(np.float32)


def pictures(n: int, channels: int, size: int, seed: int, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Gratings, as float32 [n, channels, size, size], and which of four directions they run in, int64 [n]."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, n)
    angle = label * math.pi / CLASSES + rng.normal(0, 0.1, n)
    phase = rng.uniform(0, 2 * math.pi, (n, channels, 1, 1)) * 0.2 + rng.uniform(0, 2 * math.pi, (n, 1, 1, 1))
    along, down = np.meshgrid(np.arange(size), np.arange(size))
    across = np.cos(angle)[:, None, None] * along + np.sin(angle)[:, None, None] * down
    wave = np.sin(1.4 * across[:, None] + phase) * rng.uniform(0.5, 1.2, (n, 1, 1, 1))
    return on_grid(wave + rng.normal(0, noise, wave.shape)), label


def series(n: int, channels: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vibrations, as float32 [n, channels, length], and which of four frequencies they have, int64 [n]."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, n)
    frequency = np.array([0.3, 0.7, 1.2, 1.9])[label] * rng.uniform(0.9, 1.1, n)
    phase = rng.uniform(0, 2 * math.pi, (n, channels, 1))
    wave = np.sin(frequency[:, None, None] * np.arange(length) + phase) * rng.uniform(0.5, 1.2, (n, channels, 1))
    return on_grid(wave + rng.normal(0, 0.2, wave.shape)), label


def tokens(n: int, length: int, vocabulary: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sentences, as int64 [n, length], most of whose words come from one quarter of the vocabulary, int64 [n]."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, n)
    quarter = vocabulary // CLASSES
    on_topic = label[:, None] * quarter + rng.integers(0, quarter, (n, length))
    return np.where(rng.random((n, length)) < 0.6, on_topic, rng.integers(0, vocabulary, (n, length))), label


def finish(path: Path, calibration: Arrays, test: Arrays, truth: Arrays, about: Mapping[str, object]) -> None:
    """Check an exported file against the framework's answers `truth` to `test`, and write its sidecar.

    Raises RuntimeError where ONNX Runtime disagrees with the framework, or the file is too large for a fixture.
    """
    onnx.checker.check_model(str(path), full_check=True)
    if path.stat().st_size > LARGEST:
        raise RuntimeError(f"{path.name}: {path.stat().st_size} bytes; expected at most {LARGEST}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    missing = {i.name for i in session.get_inputs()} ^ set(test) | {o.name for o in session.get_outputs()} ^ set(truth)
    if missing:
        raise RuntimeError(f"{path.name}: sidecar and file do not agree on {', '.join(sorted(missing))}")

    batches = [{name: x[k : k + 1] for name, x in test.items()} for k in range(TEST_SAMPLES)]
    answers = [[answer(session, batch) for batch in batches]]
    if all(not isinstance(i.shape[0], int) for i in session.get_inputs()):  # the batch is dynamic
        answers.append([answer(session, test)])
    worst = 0.0
    for answered in answers:
        for name, expected in truth.items():
            got = np.concatenate([a[name] for a in answered])
            if got.shape != expected.shape or got.dtype != expected.dtype:
                raise RuntimeError(
                    f"{path.name}: {name} is {got.dtype} {got.shape}; expected {expected.dtype} {expected.shape}"
                )
            if not np.isfinite(expected).all():
                raise RuntimeError(f"{path.name}: {name} is not finite")
            difference = float(np.abs(got.astype(np.float64) - expected).max())
            if difference > TOLERANCE * max(1.0, float(np.abs(expected).max())):
                raise RuntimeError(f"{path.name}: ONNX Runtime is off by {difference:.2g} in {name}")
            worst = max(worst, difference)

    text = json.dumps({**about, "max_difference": float(f"{worst:.2g}")})
    tests = {f"test/{name}": x for name, x in {**test, **truth}.items()}
    np.savez_compressed(path.with_suffix(".npz"), allow_pickle=False, about=np.array(text), **calibration, **tests)
    print(f"{path.name:42s} {path.stat().st_size:6d} B  max difference {worst:.1e}", flush=True)


def answer(session: onnxruntime.InferenceSession, inputs: Arrays) -> Arrays:
    """Outputs of one run by name; skl2onnx's list of {class: probability} as an array [n, classes]."""
    names = [o.name for o in session.get_outputs()]
    found = zip(names, session.run(names, inputs), strict=True)
    return {
        name: np.array([list(row.values()) for row in y], np.float32) if isinstance(y, list) else np.asarray(y)
        for name, y in found
    }


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Nodes of a graph and of the graphs inside them (If, Loop)."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def operators(model: onnx.ModelProto) -> Counter[str]:
    """Count of each operator; those of other domains as domain::name, local functions opened."""
    found = list(all_nodes(model.graph))
    for function in model.functions:
        found += function.node
    return Counter(f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type for n in found)


def shapes(values: list[onnx.ValueInfoProto], skip: set[str]) -> str:
    """`x float [N,3,8,8]` for each value that is not also an initializer."""
    texts = []
    for value in values:
        if value.name in skip:
            continue
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            texts.append(f"{value.name} ({kind.removesuffix('_type')})")
            continue
        tensor = value.type.tensor_type
        dims = ",".join(d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?") for d in tensor.shape.dim)
        texts.append(f"{value.name} {onnx.TensorProto.DataType.Name(tensor.elem_type).lower()} [{dims}]")
    return ", ".join(texts)


def row(path: Path) -> str:
    """One line of the README's table."""
    model = onnx.load(path, load_external_data=False)
    with np.load(path.with_suffix(".npz")) as sidecar:
        about = json.loads(str(sidecar["about"]))
    opsets = ", ".join(f"{o.domain or ''} {o.version}".strip() for o in model.opset_import)
    weights = {tensor.name for tensor in model.graph.initializer}
    size = f"{path.stat().st_size}"
    for outside in sorted(path.parent.glob(f"{path.name}.*")):
        size += f" + {outside.stat().st_size} ({outside.name})"
    ops = ", ".join(f"{name} {n}" if n > 1 else name for name, n in sorted(operators(model).items()))
    cells = (
        f"`{path.stem}`",
        about["exporter"],
        opsets,
        f"{shapes(list(model.graph.input), weights)} → {shapes(list(model.graph.output), set())}",
        ops,
        size,
        f"{about['max_difference']:.1e}",
        about.get("note", ""),
    )
    return "\t".join(cells)


def write_readme(out: Path) -> None:
    """README.md and models.tsv of the folder, from the files that lie in it."""
    paths = sorted(out.glob("*.onnx"))
    versions: dict[str, set[str]] = {}
    for path in paths:
        with np.load(path.with_suffix(".npz")) as sidecar:
            for package, version in json.loads(str(sidecar["about"]))["versions"].items():
                versions.setdefault(package, set()).add(version)
    total = sum(p.stat().st_size for pattern in ("*.onnx", "*.onnx.*") for p in out.glob(pattern))
    sidecars = sum(p.stat().st_size for p in out.glob("*.npz"))
    lines = [
        "# Small models as frameworks export them",
        "",
        "Written by `make_torch.py`, `make_keras.py` and `make_sklearn.py` one folder up; this file too",
        "(`write_readme` in `exporting.py`). The weights were trained for a second or two. Nothing was changed after",
        "the export, except that node metadata (source paths and stack traces) was removed from `dynamo_*` files.",
        "",
        *textwrap.wrap(
            f"{len(paths)} files, {total} bytes; sidecars {sidecars} bytes. Versions: "
            + ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in sorted(versions.items()))
            + ".",
            118,
            break_on_hyphens=False,
        ),
        "",
        "`<name>.npz` holds `<input>` (32 calibration samples), `test/<input>` (16 samples), `test/<output>` (the",
        "framework's own answers to those) and `about` (JSON: what made it).",
        "Samples lie along axis 0; where the batch is fixed at 1, give them one by one. The difference is the largest",
        "difference between ONNX Runtime and the framework on the 16 samples, alone and (dynamic batch) all at once.",
        "",
        (
            "`models.tsv` has a line for each file: exporter, opset, inputs and outputs, operators, bytes, "
            "difference, note."
        ),
        "",
    ]
    (out / "README.md").write_text("\n".join(lines), encoding="utf-8")
    head = "file\texporter\topset\tinputs → outputs\toperators\tbytes\tdifference\tnote"
    (out / "models.tsv").write_text("\n".join([head, *map(row, paths), ""]), encoding="utf-8")

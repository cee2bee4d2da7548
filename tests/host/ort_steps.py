"""A quantised ONNX model in ONNX Runtime, integer by integer, and the steps of its packed form beside it.

Every QuantizeLinear's output becomes an output of the graph; the model runs with all optimisations off, so that each
node computes on real numbers what it says and nothing saturates on the way (see the trap in shared/models/README.md).
Each step of the packed model is then fed ONNX Runtime's own integers and its result compared with theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from nets import Arrays, session
from onnx import helper

from mica import engine
from mica.compile import Compiled

UINT8_SHIFT = 128


@dataclass
class Difference:
    """Difference between a step's outputs and ONNX Runtime's, in output steps."""

    values: int = 0
    different: int = 0
    largest: int = 0

    def add(self, found: np.ndarray, expected: np.ndarray) -> None:
        d = np.abs(found.astype(int) - expected.astype(int))
        self.values += d.size
        self.different += int(np.count_nonzero(d))
        self.largest = max(self.largest, int(d.max(initial=0)))

    @property
    def equal(self) -> float:
        return 1.0 - self.different / self.values


@dataclass
class Steps:
    """The packed model and its original, ready to be compared. Values are named as in the ONNX file."""

    model: onnx.ModelProto
    compiled: Compiled
    results: dict[str, Difference] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.model.graph.node
        self.makers = {o: n for n in nodes for o in n.output}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        for n in nodes:
            for i in n.input:
                self.readers.setdefault(i, []).append(n)
        self.quantised = [n.output[0] for n in nodes if n.op_type == "QuantizeLinear"]
        exposed = onnx.ModelProto()
        exposed.CopyFrom(self.model)
        there = {o.name for o in exposed.graph.output}
        exposed.graph.output.extend(helper.make_empty_tensor_value_info(q) for q in self.quantised if q not in there)
        self.session = session(exposed)
        self.names = [o.name for o in self.session.get_outputs()]
        self.loaded = engine.load(self.compiled.data)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """All outputs and all integer tensors of ONNX Runtime; uint8 as int8."""
        found = dict(zip(self.names, self.session.run(None, dict(feeds)), strict=True))
        return {k: as_int8(v) for k, v in found.items()}

    def compare(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Runs one sample; adds to `results`, by the name of the step."""
        integers = self.run(feeds)
        for node, steps in self._groups():
            inputs = [self._integers_of(i) for i in node.input]
            output = self._rounded(node.output[0])
            if output not in integers or not any(i in integers for i in inputs):
                continue
            feed = [integers[i] for i in inputs if i in integers]
            found = self._one(steps, feed, integers[output].shape)
            self.results.setdefault(steps[-1], Difference()).add(found, integers[output])

    def _groups(self) -> Iterator[tuple[onnx.NodeProto, list[str]]]:
        """ONNX nodes with the steps they became."""
        names = {s.name for s in self.compiled.model.steps}
        for node in self.model.graph.node:
            if node.name in names:
                yield node, [node.name]

    def _integers_of(self, real: str) -> str:
        """The integer tensor that a dequantised value was."""
        maker = self.makers.get(real)
        return maker.input[0] if maker is not None and maker.op_type == "DequantizeLinear" else ""

    def _rounded(self, real: str) -> str:
        """The integer tensor that a value becomes, through a Relu where there is one."""
        for reader in self.readers.get(real, []):
            if reader.op_type == "QuantizeLinear":
                return reader.output[0]
            if reader.op_type in ("Relu", "Clip"):
                return self._rounded(reader.output[0])
        return ""

    def _one(self, names: list[str], feed: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Runs the steps called `names` on integers in the file's layout; the result in the file's layout."""
        file = self.compiled.model
        chosen = [k for k, s in enumerate(file.steps) if s.name in names]
        made = {o for k in chosen for o in file.steps[k].outputs}
        free = [t for k in chosen for t in file.steps[k].inputs if t not in made and file.tensors[t].values is None]
        assert len(free) == len(feed), (names, free)
        for t, x in zip(free, feed, strict=True):
            self._write(t, to_layout(x, tuple(file.tensors[t].dims)))
        for k in chosen:
            self.loaded.run_step(k)
        return from_layout(self.loaded.tensor(file.steps[chosen[-1]].outputs[0]), shape)

    def _write(self, t: int, x: np.ndarray) -> None:
        if isinstance(self.loaded, engine.NativeModel):
            self.loaded.write(t, np.ascontiguousarray(x).tobytes())
        else:
            self.loaded._write(t, x)  # type: ignore[attr-defined]


def as_int8(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.int16) - UINT8_SHIFT).astype(np.int8) if x.dtype == np.uint8 else x


def to_layout(x: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """NCHW -> NHWC, as the packed tensor has it; flat tensors keep their order."""
    nhwc = x.transpose(0, 2, 3, 1) if x.ndim == 4 and len(dims) == 4 else x
    return nhwc if nhwc.shape == dims else x.reshape(dims)


def from_layout(y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """NHWC -> NCHW, as the original has it."""
    nchw = y.transpose(0, 3, 1, 2) if y.ndim == 4 and len(shape) == 4 else y
    return nchw if nchw.shape == shape else y.reshape(shape)

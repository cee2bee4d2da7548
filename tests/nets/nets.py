"""Helpers of the compiler's tests: small ONNX networks written in code, and ONNX Runtime's answers to them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from mica import engine
from mica.compile import compile_file
from mica.errors import Unsupported
from mica.format import output_groups
from mica.format.values import quantise_input
from mica.importer import import_onnx
from mica.ir.graph import Graph
from mica.passes import pipeline
from mica.reference import float_ops
from mica.reference.executor import ReferenceModel

Arrays = dict[str, np.ndarray]
FLOAT = TensorProto.FLOAT
MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"


class Net:
    """A network under construction: `x = net.input([1, 3, 8, 8]); net.output(net.add("Relu", x))`."""

    def __init__(self, opset: int = 17, ir: int = 8, seed: int = 0) -> None:
        self.opset, self.ir = opset, ir
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.functions: list[onnx.FunctionProto] = []
        self.domains: dict[str, int] = {}

    def input(self, shape: Sequence[int | str | None] | None, name: str = "x", dtype: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def const(self, array: Any, name: str = "") -> str:
        """A constant; Python numbers become float32, integers stay int64."""
        a = np.asarray(array)
        a = a.astype(np.float32) if a.dtype == np.float64 and not isinstance(array, np.ndarray) else a
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(a, order="C"), name))
        return name

    def random(self, *shape: int, scale: float = 0.5) -> str:
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, outputs: Sequence[str] = (), name: str | None = None, **attrs: Any) -> str:
        """A node; returns the name of its first output."""
        outputs = list(outputs) or [f"v{len(self.nodes)}"]
        name = f"n{len(self.nodes)}_{op}" if name is None else name
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **attrs))
        return outputs[0]

    def conv(self, x: str, n_in: int, n_out: int, k: int | Sequence[int] = 3, bias: bool = True, **attrs: Any) -> str:
        kernel = (k, k) if isinstance(k, int) else tuple(k)
        w = self.random(n_out, n_in // attrs.get("group", 1), *kernel)
        return self.add("Conv", x, w, *([self.random(n_out)] if bias else []), **attrs)

    def output(self, name: str, shape: Sequence[int | str | None] | None = None, dtype: int = FLOAT) -> str:
        info = helper.make_tensor_value_info(name, dtype, shape)
        if shape is None:  # the checker wants some shape, ONNX Runtime takes this one for any
            info.type.tensor_type.shape.SetInParent()
            rank = self._rank(name)
            for k in range(rank):
                info.type.tensor_type.shape.dim.add().dim_param = f"{name}_{k}"
        self.outputs.append(info)
        return name

    def _rank(self, name: str) -> int:
        """Rank of a value, by ONNX's inference from the nodes so far."""
        graph = helper.make_graph(
            self.nodes, "part", self.inputs, [helper.make_empty_tensor_value_info(name)], self.constants
        )
        model = helper.make_model(graph, opset_imports=self._opsets(), functions=self.functions, ir_version=self.ir)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output[0]
        return len(inferred.type.tensor_type.shape.dim)

    def _opsets(self) -> list[onnx.OperatorSetIdProto]:
        return [helper.make_opsetid(d, v) for d, v in {"": self.opset, **self.domains}.items()]

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=self._opsets(), functions=self.functions, ir_version=self.ir)

    def save(self, folder: Path, name: str = "net.onnx") -> Path:
        path = folder / name
        path.write_bytes(self.model().SerializeToString())
        return path

    def samples(self, n: int = 1, shapes: Mapping[str, int] | None = None) -> list[Arrays]:
        """Normal inputs; dynamic dimensions are 1, or as in `shapes`."""
        return [
            {
                i.name: self.rng.standard_normal(
                    [d.dim_value or (shapes or {}).get(d.dim_param, 1) for d in i.type.tensor_type.shape.dim]
                ).astype(np.float32)
                for i in self.inputs
            }
            for _ in range(n)
        ]


def single(op: str, *shape: int, opset: int = 17, inputs: Sequence[Any] = (), **attrs: Any) -> Net:
    """A network of one node, whose further inputs are constants."""
    net = Net(opset)
    net.output(net.add(op, net.input(shape), *(net.const(c) for c in inputs), **attrs))
    return net


def imported(net: Net, folder: Path, shapes: Mapping[str, int] | None = None) -> Graph:
    return import_onnx(net.save(folder), shapes)


def core(net: Net, folder: Path, shapes: Mapping[str, int] | None = None) -> Graph:
    """The network as core operators."""
    return pipeline.run(imported(net, folder, shapes))


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if any(n.op_type == "MatMulInteger" for n in model.graph.node):
        # On a processor without VNNI its kernel adds pairs of products in 16 bits, and saturates;
        # the optimiser knows how to do without.
        options.add_session_config_entry("session.x64quantprecision", "1")
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # the model as it stands
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def truth(net: Net, feeds: Mapping[str, np.ndarray]) -> Arrays:
    """The network's outputs by ONNX Runtime."""
    s = session(net.model())
    return dict(zip((o.name for o in s.get_outputs()), s.run(None, dict(feeds)), strict=True))


def float_outputs(g: Graph, feeds: Mapping[str, np.ndarray]) -> Arrays:
    values = float_ops.run(g, feeds)
    return {o: values[o] for o in g.outputs}


def assert_same(net: Net, g: Graph, tolerance: float = 2e-5, shapes: Mapping[str, int] | None = None) -> None:
    """Check that a core graph runs and gives ONNX Runtime's results, within `tolerance` of the largest.

    ONNX Runtime rounds every sum to float32; our reference rounds the operands of products to some 21 bits of their
    largest (reference/exact.py). A U-Net of 11 layers came to 1.2e-5, of which 1e-5 are ours.
    """
    for feeds in net.samples(2, shapes):
        expected = truth(net, feeds)
        found = float_outputs(g, feeds)
        assert list(expected) == list(found)
        for name, w in expected.items():
            assert found[name].shape == w.shape, name
            np.testing.assert_allclose(found[name], w, rtol=0, atol=tolerance * max(1.0, float(np.abs(w).max())))
    assert_runs(net, shapes)


def assert_runs(net: Net, shapes: Mapping[str, int] | None = None) -> None:
    """A network that is accepted is one that runs: packed, loaded, and the engine's bytes those of the reference."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_file(net.save(Path(folder)), shapes=shapes)
    model = compiled.model
    assert [model.tensors[t].name for t in model.inputs] == [i.name for i in net.inputs]
    assert [group.name for group in output_groups.read(model)] == [o.name for o in net.outputs]
    both = (engine.load(compiled.data), ReferenceModel(compiled.data))
    for feeds in net.samples(2, shapes):
        for m in both:
            for i, t in enumerate(model.inputs):
                record = model.tensors[t]
                m.set_input(i, quantise_input(feeds[record.name], record))
            m.run()
        for i in range(len(model.outputs)):
            np.testing.assert_array_equal(both[0].output(i), both[1].output(i))


def ops(g: Graph) -> list[str]:
    """Operators of a graph in order; Reshape, which costs nothing, left out."""
    return [n.op for n in g.nodes if n.op != "Reshape"]


def refusal_of(net: Net) -> None:
    """Fail with the compiler's refusal of a network; for `pytest.raises(AssertionError, match=...)`."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            compile_file(net.save(Path(folder)))
        except Unsupported as e:
            raise AssertionError(str(e)) from None


def varies(exact: Sequence[np.ndarray]) -> float:
    """The energy of outputs over samples, without the mean of each element: the signal of SQNR."""
    x = np.array(exact, np.float64)
    return float(np.sum(np.var(x, axis=0, ddof=1)) * len(x))

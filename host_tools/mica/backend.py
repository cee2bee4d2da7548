"""ONNX's backend interface over the compiler and the engine: `prepare(model).run(inputs)`.

    import mica.backend
    y, = mica.backend.prepare(onnx.load("net.onnx")).run([x])

A quantiser needs to know the range of every tensor. `prepare` takes samples of the inputs as `calibration`; without
them the model is compiled at its first run, whose inputs then are the calibration. Inputs and outputs are float (or
whatever type the ONNX model says); between them runs the very integer engine that boards run. Every input and output of
the model stays one: none is kept as a state.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from mica.compile import Compiled, compile_file
from mica.errors import MicaError
from mica.file.codec import TensorRecord
from mica.format import output_groups
from mica.format.values import dequantise_output, quantise_input
from mica.run.host import HostRunner


class MicaRep(BackendRep):
    """A prepared model. `compiled` is None until its ranges are known."""

    def __init__(self, model: onnx.ModelProto, calibration: Mapping[str, np.ndarray] | None = None) -> None:
        self.proto = model
        constants = {i.name for i in model.graph.initializer}
        self.inputs = [i for i in model.graph.input if i.name not in constants]
        self.compiled: Compiled | None = None
        self.runner: HostRunner | None = None
        if calibration is not None:
            self._compile(calibration)

    def _compile(self, calibration: Mapping[str, np.ndarray]) -> None:
        """calibration: input name -> samples [n, ...input shape]."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(self.proto, str(path))
            try:
                self.compiled = compile_file(path, calibration, states=())
            except MicaError as e:
                e.found = e.found.removeprefix(f"{path}: ")  # a file that nobody knows of
                raise
        self.runner = HostRunner(self.compiled.data, self.compiled.custom)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """inputs: arrays in the order of the model's inputs, or a dict by name. Raises MicaError and Unsupported."""
        arrays = self._by_name(inputs)
        if self.compiled is None:
            self._compile({name: a[None] for name, a in arrays.items()})
        assert self.compiled is not None
        assert self.runner is not None
        model = self.compiled.model
        sample = []
        for t in (model.tensors[i] for i in model.inputs):
            a = arrays[t.name]
            sample.append(as_stored(a, t))
        outputs = self.runner.run([sample])[0]
        declared = []
        for group, info in zip(output_groups.read(model), self.proto.graph.output, strict=True):
            q, tensor = outputs[group.first], model.tensors[model.outputs[group.first]]
            if group.parts == 1:
                declared.append(self._as_declared(q, tensor, info))
            else:
                dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
                declared.append(output_groups.joined(model, group, outputs).astype(dtype))
        return tuple(declared)

    def _by_name(self, inputs: Any) -> dict[str, np.ndarray]:
        if isinstance(inputs, Mapping):
            return {name: np.asarray(a) for name, a in inputs.items()}
        given: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if len(given) != len(self.inputs):
            raise MicaError(f"{len(given)} inputs given", todo=f"the model takes {len(self.inputs)}")
        return {info.name: np.asarray(a) for info, a in zip(self.inputs, given, strict=True)}

    @staticmethod
    def _as_declared(q: np.ndarray, tensor: TensorRecord, info: onnx.ValueInfoProto) -> np.ndarray:
        """An output in the type that the ONNX model declares."""
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
        if q.dtype == np.int8 and dtype in (np.int8, np.uint8):
            return q if dtype == np.int8 else (q.astype(np.int16) + 128).astype(np.uint8)
        if q.dtype == np.int32 and dtype.kind in "iu":
            return q.astype(dtype)
        real = dequantise_output(q, tensor)
        return real.astype(dtype) if dtype.kind == "f" else np.rint(real).astype(dtype)


def as_stored(a: np.ndarray, t: TensorRecord) -> np.ndarray:
    """An input as the engine keeps it: 8-bit integers as they are, uint8 moved by 128; all others are real numbers."""
    if t.dtype == "int8" and a.dtype in (np.int8, np.uint8):
        moved = a if a.dtype == np.int8 else (a.astype(np.int16) - 128).astype(np.int8)
        return moved.reshape(t.dims)
    return quantise_input(a, t)


class MicaBackend(Backend):
    """The backend that `onnx.backend` describes, with mica behind it."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> MicaRep:
        """kwargs: calibration, input name -> samples [n, ...input shape]."""
        super().prepare(model, device, **kwargs)
        if not cls.supports_device(device):
            raise MicaError(f"device {device} is not supported; mica's backend runs on the CPU")
        return MicaRep(model, kwargs.get("calibration"))

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        """Runs a single node on arrays. outputs_info: (dtype, shape) of each output; float of any shape if absent."""
        arrays = [np.asarray(a) for a in inputs]
        names = [i for i in node.input if i]
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays, strict=True)
        ]
        kinds = outputs_info or [(np.dtype(np.float32), None)] * len(node.output)
        graph = helper.make_graph(
            [node],
            "node",
            infos,
            [
                helper.make_tensor_value_info(o, helper.np_dtype_to_tensor_dtype(np.dtype(d)), s)
                for o, (d, s) in zip(node.output, kinds, strict=True)
            ],
        )
        return MicaRep(onnx.shape_inference.infer_shapes(helper.make_model(graph))).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only "CPU": the engine in this process. Boards are reached through `mica run --on T`."""
        return device.split(":")[0] == "CPU"


prepare = MicaBackend.prepare
run_model = MicaBackend.run_model
run_node = MicaBackend.run_node
supports_device = MicaBackend.supports_device

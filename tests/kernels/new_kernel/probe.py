"""Run with the mica of a tree that has Hardmax: packs a model with it, computes it in C and in numpy,
builds for the board.

probe.py FOLDER  writes there: model.mica, x, y (bytes of the input and of the output), lib/ (what the board gets).
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from mica import engine
from mica.compile import compile_file
from mica.reference.executor import ReferenceModel
from mica.toolchain import mip_package, natmod

FOLDER = Path(sys.argv[1])
nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Hardmax", ["r"], ["y"], "hard")]
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 5]) for name in "xy"]
graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(model, FOLDER / "hardmax.onnx")

rng = np.random.default_rng(0)
packed = compile_file(FOLDER / "hardmax.onnx", {"x": rng.uniform(-1, 1, (32, 3, 5)).astype(np.float32)})
assert [s.kernel for s in packed.model.steps] == ["lut_s8", "hardmax_s8"]
x = rng.permutation(15).reshape(1, 3, 5).astype(np.int8) * 8
assert engine.AVAILABLE
answers = []
for runner in (engine.NativeModel(packed.data), ReferenceModel(packed.data)):
    runner.set_input(0, x)
    runner.run()
    answers.append(runner.output(0))
np.testing.assert_array_equal(*answers)
assert np.array_equal(np.argmax(answers[0], axis=-1), np.argmax(x, axis=-1))
assert len(np.unique(answers[0])) == 2

(FOLDER / "model.mica").write_bytes(packed.data)
(FOLDER / "x").write_bytes(x.tobytes())
(FOLDER / "y").write_bytes(answers[0].tobytes())
native = natmod.build("x64")
for name, content in {"aside/_mica.mpy": native.file.read_bytes(), **mip_package.runtime()}.items():
    path = FOLDER / "lib" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
print(native.file.parent)

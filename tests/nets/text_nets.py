"""ONNX networks as texts of onnx.parser, with their constants by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
from onnx import helper, numpy_helper


def save(path: Path, text: str, domains: tuple[str, ...] = (), opset: int = 17, **constants: Any) -> Path:
    """`save(path, "(float[1,4] x) => (float[1,4] y) { [name] y = Add(x, b) }", b=array)`: the graph as an ONNX file."""
    graph = onnx.parser.parse_graph(f"net {text}")
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path

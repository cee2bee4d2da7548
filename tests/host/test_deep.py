"""Long rows of nodes, numbers that are not finite, and windows that make a small file's work large: one line, soon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mica.compiler import compile_model  # noqa: F401  (the passes below in their order)
from mica.errors import MicaError, Unsupported
from mica.importer import vocabulary
from mica.importer.onnx_file import import_onnx
from mica.ir.graph import Graph, Node, Value
from mica.passes import masks, pieces, quantised_values

DEEP = 3000

"""Answers of LiteRT to a .tflite file, if it is installed (`pip install ai-edge-litert`; the extra `dev` has it)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest


def interpreter(content: bytes, reference: bool = True, every: bool = False) -> Any:
    """With LiteRT's reference kernels, or as it comes: XNNPACK. every: all tensors can be read.
    Skips without LiteRT."""
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="LiteRT is not installed (pip install ai-edge-litert)"
    )
    kinds = litert.OpResolverType
    for kind in (kinds.BUILTIN_REF, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES) if reference else (kinds.AUTO,):
        try:
            made = litert.Interpreter(
                model_content=content,
                experimental_op_resolver_type=kind,
                experimental_preserve_all_tensors=every,
                num_threads=1,
            )
        except ValueError as e:
            if "Didn't find op" not in str(e) or kind != kinds.BUILTIN_REF:  # some operators have one kernel only
                raise
        else:
            break
    made.allocate_tensors()
    return made


def run(made: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs, integers where the file has them."""
    for detail, x in zip(made.get_input_details(), inputs, strict=True):
        made.set_tensor(detail["index"], x)
    made.invoke()
    return [made.get_tensor(d["index"]) for d in made.get_output_details()]

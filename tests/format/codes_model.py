"""The rich model with the weights of its convolution and its dense layer as codes."""

from __future__ import annotations

import numpy as np
from rich_model import rich_model

from mica.file import codec
from mica.file.codec import ModelFile
from mica.format.weights import CODES4
from mica.kernels import KERNEL_BY_NAME


def codes_model() -> ModelFile:
    model = rich_model()
    for s in model.steps:
        if CODES4 in KERNEL_BY_NAME[s.kernel].layouts:
            w = s.blobs["weights"].astype(np.int64)
            s.blobs["weights"] = (np.sign(w) * (np.abs(w) // 18 * 17)).astype(np.int8)
            s.layout, s.flags = CODES4.code, codec.step_flags(s)
            s.scratch_want = s.unpacking
    return model

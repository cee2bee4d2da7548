"""Distance of an operator's int8 result from the float operator on the same, dequantised inputs, in output steps."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from nets import Net, session

from mica import engine
from mica.compile import Compiled, compile_file
from mica.format.values import dequantise_output, quantise_input
from mica.reference.executor import ReferenceModel

MOST = 1.5  # half a step for the result itself, and one for what the kernels round on the way


def compiled(net: Net, feeds: Mapping[str, np.ndarray]) -> Compiled:
    with tempfile.TemporaryDirectory() as folder:
        return compile_file(net.save(Path(folder)), {name: a[None] for name, a in feeds.items()})


def quantisation_steps(net: Net, feeds: Mapping[str, np.ndarray], c: Compiled | None = None) -> float:
    """The worst of all outputs; where float gives infinity, or what int8 cannot hold, saturation is right.

    Integer outputs must be equal. The engine's bytes must be the reference's.
    """
    c = c or compiled(net, feeds)
    both = (engine.load(c.data), ReferenceModel(c.data))
    real = {}
    for i, t in enumerate(c.model.inputs):
        record = c.model.tensors[t]
        q = quantise_input(feeds[record.name], record)
        real[record.name] = np.asarray(dequantise_output(q, record)).astype(feeds[record.name].dtype)
        for m in both:
            m.set_input(i, q)
    for m in both:
        m.run()
    with np.errstate(all="ignore"):
        expected = session(net.model()).run(None, real)
    worst = 0.0
    for k, w in enumerate(expected):
        t = c.model.tensors[c.model.outputs[k]]
        found = both[0].output(k)
        np.testing.assert_array_equal(found, both[1].output(k))
        assert found.shape == w.shape
        y = dequantise_output(found, t)
        if w.dtype.kind in "iub":
            np.testing.assert_array_equal(y, w.astype(np.float32))
            continue
        low, high = ((v - t.zero_point) * t.scale for v in (-128, 127))
        error = np.abs(y - np.clip(w, low, high)) / t.scale
        worst = max(worst, float(np.max(error, where=~np.isnan(w), initial=0.0)))
    return worst

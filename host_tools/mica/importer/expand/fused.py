"""Operators of the domain com.microsoft that ONNX Runtime's optimiser and dynamic quantiser write for any network.

y = FusedConv(x, w, b, z) {activation}    =>   y = activation(Conv(x, w, b) + z)
y = FusedGemm(a, b, c) {activation}       =>   y = activation(Gemm(a, b, c))
y, h, c = DynamicQuantizeLSTM(x, w, r)    =>   y, h, c = LSTM(x, w in real numbers, r likewise)
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mica.importer.expand.writer import Writer

# Activations with the attributes that their parameters are, in this order.
_ACTIVATIONS = {
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}


def _activation(n: Writer, y: str, name: str, numbers: list[float]) -> None:
    """activation(y) into the node's output."""
    if name == "Clip":
        ends = [n.constant(end, np.array(v, np.float32)) for end, v in zip(("low", "high"), numbers, strict=True)]
        n.emit(name, [y, *ends], n.output(0))
    elif name in _ACTIVATIONS:
        attrs: dict[str, Any] = dict(zip(_ACTIVATIONS[name], numbers, strict=False))
        n.emit(name, [y], n.output(0), **attrs)
    else:
        raise ValueError(f"the activation {name or '(none)'}; {', '.join((*_ACTIVATIONS, 'Clip'))} are supported")


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _conv(n: Writer) -> None:
    attrs: dict[str, Any] = dict(n.attrs)
    name, numbers = _text(attrs.pop("activation", "")), attrs.pop("activation_params", [])
    y = n.emit("Conv", [i for i in n.i[:3] if i], **attrs)
    if n.i[3]:
        y = n.emit("Add", [y, n.i[3]])
    _activation(n, y, name, numbers)


def _gemm(n: Writer) -> None:
    attrs: dict[str, Any] = dict(n.attrs)
    name = _text(attrs.pop("activation", ""))
    numbers = [attrs.pop(f"activation_{k}") for k in ("alpha", "beta", "gamma") if f"activation_{k}" in attrs]
    _activation(n, n.emit("Gemm", [i for i in n.i[:3] if i], **attrs), name, numbers)


def _lstm(n: Writer) -> None:
    scales = n.i[8:12]
    inputs = [*n.i[:8]]
    for k, (scale, zero) in ((1, scales[:2]), (2, scales[2:])):
        found = [n.value(name) for name in (inputs[k], scale, zero)]
        if any(v is None for v in found):
            raise ValueError("weights that are not constant")
        w, s, z = (np.asarray(v, np.float32) for v in found)
        s, z = (v.reshape(w.shape[0], 1, -1) for v in (s, z))  # of each direction, or of each of its columns
        inputs[k] = n.constant("weights", np.ascontiguousarray(((w - z) * s).swapaxes(1, 2)))
    while not inputs[-1]:
        inputs.pop()
    attrs: dict[str, Any] = dict(n.attrs)
    n.emit("LSTM", inputs, [n.output(k) for k in range(3)], **attrs)


FORMS: dict[str, Callable[[Writer], None]] = {"DynamicQuantizeLSTM": _lstm, "FusedConv": _conv, "FusedGemm": _gemm}

"""Operators that compute on integers are spelled out as DequantizeLinear, the float operator, QuantizeLinear.

    y = QLinearConv(x, sx, zx, w, sw, zw, sy, zy, b)   =>   y = Quantize(Conv(Dequantize(x, sx, zx),
                                                                             Dequantize(w, sw, zw),
                                                                             Dequantize(b, sx * sw)), sy, zy)
    QLinearMatMul, QLinearAdd, QGemm ...               =>   likewise

ONNX Runtime writes such models with `QuantFormat.QOperator`. Behind this point there is one form only, and ONNX's own
shape inference serves the operators of the domain com.microsoft too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import onnx

from mica.importer.expand import fused, ml, transformers
from mica.importer.expand.writer import Writer
from mica.importer.state import ImportState


def spell(state: ImportState, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes that `proto` stands for, itself where it is none of these. Raises ValueError with the reason."""
    if proto.op_type in ("QuantizeLinear", "DequantizeLinear") and proto.domain:
        plain = onnx.NodeProto()
        plain.CopyFrom(proto)
        plain.domain = ""
        return [plain]
    write = _forms(proto.domain).get(proto.op_type)
    if write is None:
        return [proto]
    node = Writer(state, proto)
    write(node)
    return node.nodes


def _conv(n: Writer) -> None:
    x, sx, zx, w, sw, zw, sy, zy, b = n.i[:9]
    inputs = [n.real(x, sx, zx), n.real(w, sw, zw)]
    if b:
        inputs.append(n.bias(b, sx, sw))
    n.finish(n.emit("Conv", inputs, **n.attrs), sy, zy)


def _matmul(n: Writer) -> None:
    a, sa, za, b, sb, zb, sy, zy = n.i[:8]
    n.finish(n.emit("MatMul", [n.real(a, sa, za), n.real(b, sb, zb, n.rank(b) - 1)]), sy, zy)


def _gemm(n: Writer) -> None:
    a, sa, za, b, sb, zb, c, sy, zy = n.i[:9]
    inputs = [n.real(a, sa, za), n.real(b, sb, zb, 0 if n.attrs.get("transB") else 1)]
    if c:
        inputs.append(n.bias(c, sa, sb, factor=n.attrs.get("alpha", 1.0)))
    if sy:
        n.finish(n.emit("Gemm", inputs, **n.attrs), sy, zy)
    else:  # without a scale of the output it gives real numbers
        n.emit("Gemm", inputs, n.proto.output[0], **n.attrs)


def _two(op: str) -> Callable[[Writer], None]:
    def write(n: Writer) -> None:
        a, sa, za, b, sb, zb, sy, zy = n.i[:8]
        n.finish(n.emit(op, [n.real(a, sa, za), n.real(b, sb, zb)]), sy, zy)

    return write


def _one(op: str) -> Callable[[Writer], None]:
    def write(n: Writer) -> None:
        if n.attrs.pop("channels_last", 0):
            raise ValueError("channels_last=1; quantise the model without layout optimisation")
        n.attrs.pop("opset", None)
        x, sx, zx, sy, zy = n.i[:5]
        n.finish(n.emit(op, [n.real(x, sx, zx)], **n.attrs), sy, zy)

    return write


def _softmax(n: Writer) -> None:
    if (n.attrs.get("opset", n.state.opset) < 13) != (n.state.opset < 13):
        raise ValueError(f"a softmax of opset {n.attrs['opset']} in a model of opset {n.state.opset}")
    _one("Softmax")(n)


def _concat(n: Writer) -> None:
    sy, zy, *rest = n.proto.input
    parts = [n.real(*rest[k : k + 3]) for k in range(0, len(rest), 3)]
    n.finish(n.emit("Concat", parts, **n.attrs), sy, zy)


_FORMS: dict[str, Callable[[Writer], None]] = {
    "QGemm": _gemm,
    "QLinearAdd": _two("Add"),
    "QLinearAveragePool": _one("AveragePool"),
    "QLinearConcat": _concat,
    "QLinearConv": _conv,
    "QLinearGlobalAveragePool": _one("GlobalAveragePool"),
    "QLinearLeakyRelu": _one("LeakyRelu"),
    "QLinearMatMul": _matmul,
    "QLinearMul": _two("Mul"),
    "QLinearReduceMean": _one("ReduceMean"),
    "QLinearSigmoid": _one("Sigmoid"),
    "QLinearSoftmax": _softmax,
}


def _forms(domain: str) -> Mapping[str, Callable[[Any], None]]:
    if domain == ml.DOMAIN:
        return ml.FORMS
    return _FORMS | (transformers.FORMS | fused.FORMS if domain == transformers.DOMAIN else {})

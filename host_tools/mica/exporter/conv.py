"""Convolutions and matrix products: weights and biases in integers, dequantised by channel."""

from collections.abc import Callable

import numpy as np

from mica.exporter.step import Form, NoForm, Step, factors

TINY = 1e-30  # weight scale of a channel whose factor is 0


def weight_scales(s: Step) -> np.ndarray:
    """float32 [Cout]: what an integer of each channel's weights is worth, from what the kernel multiplies sums by."""
    return np.maximum(factors(s.blobs) * (s.y.scale / s.x[0].scale), TINY).astype(np.float32)


def constants(s: Step, weights: np.ndarray) -> tuple[str, str]:
    """(weights, bias) as real numbers. weights: int8 [Cout, ...]. The file's bias holds -zx * sum(w)."""
    scales = weight_scales(s)
    sums = weights.reshape(len(weights), -1).astype(np.int64).sum(axis=1)
    bias = s.blobs["bias"].astype(np.int64) + s.x[0].zero_point * sums
    of_channels = s.const(scales, "weight_scale")
    # Zero points that are said: ONNX Runtime's optimiser makes up one for all channels, and then refuses it.
    zeros = np.zeros(len(weights))
    zero = s.const(zeros.astype(np.int8), "weight_zero")
    w = s.node("DequantizeLinear", s.const(weights, "weights"), of_channels, zero, axis=0)
    if np.abs(bias).max(initial=0) >= 2**31:
        return w, s.const((bias * (scales.astype(np.float64) * s.x[0].scale)), "bias")
    bias_scales = s.const(scales * np.float32(s.x[0].scale), "bias_scale")
    zero = s.const(zeros.astype(np.int32), "bias_zero")
    return w, s.node("DequantizeLinear", s.const(bias.astype(np.int32), "bias"), bias_scales, zero, axis=0)


def put(s: Step, sums: str, nchw: bool = False) -> None:
    """The result of sums of products with `constants`."""
    s.put_sum(sums, weight_scales(s).astype(np.float64) * s.x[0].scale, factors(s.blobs), nchw)


def reach(s: Step, axis: str) -> int:
    """Pixels that the windows of all outputs cover along "h" or "w"."""
    p, outs = s.p, s.y.dims[1 if axis == "h" else 2]
    return (outs - 1) * p[f"stride_{axis}"] + (p[f"kernel_{axis}"] - 1) * p[f"dilation_{axis}"] + 1


def end_pads(s: Step) -> tuple[int, int]:
    """Pads below and right of x; negative where the last windows end before x does."""
    h, w = s.x[0].dims[1:3]
    return reach(s, "h") - h - s.p["pad_top"], reach(s, "w") - w - s.p["pad_left"]


def picture(s: Step, value: Callable[[Step, int, bool], str] = Step.real) -> tuple[str, list[int]]:
    """Return x as [1,C,H,W], cut to what windows cover, with ONNX's pads. value: gives its input, as NCHW or not."""
    bottom, right = end_pads(s)
    x = value(s, 0, True)
    if bottom <= -s.p["stride_h"] or right <= -s.p["stride_w"]:  # ONNX has room for another window
        h, w = s.x[0].dims[1:3]
        ends = np.array([h + min(bottom, 0), w + min(right, 0)], np.int64)
        if ends.min() < 1:
            raise NoForm  # all windows lie in the pads
        x = s.node("Slice", x, s.const(np.zeros(2, np.int64)), s.const(ends), s.const(np.array([2, 3], np.int64)))
    return x, [s.p["pad_top"], s.p["pad_left"], max(bottom, 0), max(right, 0)]


def window(s: Step) -> dict[str, list[int]]:
    """Attributes that convolutions and pools share."""
    return {
        "kernel_shape": [s.p["kernel_h"], s.p["kernel_w"]],
        "strides": [s.p["stride_h"], s.p["stride_w"]],
        "dilations": [s.p["dilation_h"], s.p["dilation_w"]],
    }


def filters(s: Step) -> tuple[np.ndarray, int]:
    """int8 [Cout, Cin / groups, KH, KW], and the number of groups."""
    if s.record.kernel == "conv2d_s8":
        return s.blobs["weights"].transpose(0, 3, 1, 2), s.p["groups"]
    return s.blobs["weights"][:, None], s.x[0].dims[3]


def conv2d(s: Step) -> None:
    weights, groups = filters(s)
    w, bias = constants(s, weights)
    x, pads = picture(s)
    put(s, s.node("Conv", x, w, bias, pads=pads, group=groups, **window(s)), nchw=True)


def conv_transpose2d(s: Step) -> None:
    p, groups = s.p, s.p["groups"]
    pads, extra = [p["pad_top"], p["pad_left"]], []
    for axis, size, outs, begin in zip("hw", s.x[0].dims[1:3], s.y.dims[1:3], pads[:2], strict=True):
        whole = (size - 1) * p[f"stride_{axis}"] + (p[f"kernel_{axis}"] - 1) * p[f"dilation_{axis}"] + 1
        end = whole - begin - outs
        if -end >= max(p[f"stride_{axis}"], p[f"dilation_{axis}"]):
            raise NoForm  # the output is larger than ONNX allows
        pads.append(max(end, 0))
        extra.append(max(-end, 0))
    weights = s.blobs["weights"].transpose(0, 3, 1, 2)  # [Cout, Cin / groups, KH, KW]
    (w, bias), (cout, cin, kh, kw) = constants(s, weights), weights.shape
    if groups > 1:
        w = s.node("Reshape", w, s.shape((groups, cout // groups, cin, kh, kw)))
        w = s.node("Transpose", w, perm=[0, 2, 1, 3, 4])
        w = s.node("Reshape", w, s.shape((groups * cin, cout // groups, kh, kw)))
    else:
        w = s.node("Transpose", w, perm=[1, 0, 2, 3])
    x = s.real(0, nchw=True)
    y = s.node("ConvTranspose", x, w, bias, pads=pads, output_padding=extra, group=groups, **window(s))
    put(s, y, nchw=True)


def fully_connected(s: Step) -> None:
    w, bias = constants(s, s.blobs["weights"])
    if len(s.x[0].dims) == 2:
        put(s, s.node("Gemm", s.real(), w, bias, transB=1))
        return
    product = s.node("MatMul", s.real(), s.node("Transpose", w, perm=[1, 0]))
    put(s, s.node("Add", product, bias))


def matmul(s: Step) -> None:
    b = s.real(1)
    if s.p["transpose_b"]:
        rank = len(s.x[1].dims)
        b = s.node("Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2])
    product = s.node("MatMul", s.real(0), b)
    s.put_sum(product, s.x[0].scale * s.x[1].scale, s.factor())


FORMS: dict[str, Form] = {
    **dict.fromkeys(("conv2d_s8", "depthwise_conv2d_s8"), conv2d),
    "conv_transpose2d_s8": conv_transpose2d,
    "fully_connected_s8": fully_connected,
    "matmul_s8": matmul,
}

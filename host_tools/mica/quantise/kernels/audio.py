"""Front ends: from the real numbers of their tables to integers."""

import math

import numpy as np

from mica.ir.front_end import FrontEnd
from mica.ir.graph import Graph, Node
from mica.kernels import audio
from mica.quantise.kernels import pcen
from mica.quantise.kernels.common import act, emit, quant
from mica.quantise.params import quantise_multiplier
from mica.reference.front_end import turns
from mica.reference.functions import log

LN2 = 0.6931471805599453
GAIN = 65535  # of the largest weight of all filters
FLOOR_BITS = 31


def _log_mel(g: Graph, out: Graph, node: Node) -> None:
    f: FrontEnd = node.attrs["front_end"]
    q = quant(out, node.outputs[0])
    if f.speech is not None:
        mult, shift = quantise_multiplier(np.array([f.speech.worth / q.scale]))
        params = {**f.speech.params, "mult": int(mult[0]), "shift": int(shift[0]), **act(q, (f.least, f.most))}
        emit(out, node, "pcan_s8", node.inputs[:1], list(f.speech.blobs.values()), params)
        return
    if f.factor <= 0:
        raise ValueError(f"a front end that multiplies logarithms with {f.factor:g}; expected more than 0")
    if f.pcen is not None:
        _pcen(out, node, f)
        return
    size = 2 if f.power else 1
    gain = GAIN / float(f.filters.max())
    filters, gains = _filters(f.filters, gain)
    unit = 1.0 if f.peak else f.unit
    # What a sum of the kernel is more than the real one, in powers of two.
    more = float(log(np.array(gain / 65536 / unit**size))) / LN2
    floor, floor_exponent = _floor(f.floor * gain / 65536 / unit**size)
    dct, rows, step = np.zeros(0), np.ones(f.columns), f.factor * LN2 * 2.0**-16
    if f.dct is not None:
        most = min(audio.DCT_LIMIT / (np.abs(f.dct).sum(axis=1).max() + 1), 32767 / np.abs(f.dct).max())
        dct = np.rint(f.dct * (most * (1 - f.bands / audio.DCT_LIMIT)))
        scale = most * (1 - f.bands / audio.DCT_LIMIT)
        rows, step = dct.sum(axis=1) / scale, step * 2.0**audio.DCT_CUT / scale
    bias = np.rint((f.shift - f.factor * LN2 * more * rows) / step)
    if np.abs(bias).max() >= audio.BIAS_LIMIT:
        raise ValueError("a front end whose features lie too far from zero; change its shift or unit")
    mult, shift = quantise_multiplier(np.array([step / q.scale]))
    blobs = [*_transform(f), filters, gains, dct.astype(np.int16), bias.astype(np.int32)]
    flags = [(f.power, audio.POWER), (f.peak, audio.PEAK), (f.limit, audio.LIMIT), (f.dct is not None, audio.DCT)]
    flags += [(f.before, audio.BEFORE), (bool(f.edges), audio.PAD), (f.edges == "mirror", audio.MIRROR)]
    params = {
        "frame": f.frame,
        "hop": f.hop,
        "fft": f.fft,
        "bands": f.bands,
        "gains": len(gains),
        "flags": sum(bit for true, bit in flags if true),
        "preemphasis": round(f.preemphasis * 32768),
        "floor": floor,
        "floor_exponent": floor_exponent,
        "mult": int(mult[0]),
        "shift": int(shift[0]),
        **act(q, (f.least, f.most)),
        "pad": f.pad,
    }
    emit(out, node, "log_mel_s8", node.inputs[:1], blobs, params)


def _pcen(out: Graph, node: Node, f: FrontEnd) -> None:
    assert f.pcen is not None
    gain = GAIN / float(f.filters.max())
    filters, gains = _filters(f.filters, gain)
    more = gain / 65536 / f.unit ** (2 if f.power else 1)
    numbers, curve = pcen.parameters(f.pcen, quant(out, node.outputs[0]), (f.least, f.most), more)
    params = {
        "frame": f.frame,
        "hop": f.hop,
        "fft": f.fft,
        "bands": f.bands,
        "gains": len(gains),
        "flags": (audio.POWER if f.power else 0) | (audio.BEFORE if f.before else 0),
        "preemphasis": round(f.preemphasis * 32768),
        **numbers,
    }
    emit(out, node, "pcen_s8", node.inputs[:1], [*_transform(f), filters, gains, curve], params)


def _transform(f: FrontEnd) -> tuple[np.ndarray, np.ndarray]:
    """The window int16 [frame], and the twiddle factors int16 [fft / 2 + 1, 2]."""
    cosine, sine = (np.rint(t[: f.fft // 2 + 1] * 2.0**audio.UNIT) for t in turns(f.fft))
    window = np.clip(np.rint(f.window * 32768), -32767, 32767).astype(np.int16)
    return window, np.stack([cosine, sine], axis=1).astype(np.int16)


def _filters(filters: np.ndarray, gain: float) -> tuple[np.ndarray, np.ndarray]:
    """uint16 [bands, 2] first bin and number of bins, and uint16 [n] the gains of all of them."""
    places, parts = [], []
    for row in np.rint(filters * gain).astype(np.int64):
        some = np.flatnonzero(row)
        first, last = (int(some[0]), int(some[-1]) + 1) if len(some) else (0, 0)
        places.append((first, last - first))
        parts.append(row[first:last])
    return np.array(places, np.uint16), np.concatenate(parts).astype(np.uint16)


def _floor(value: float) -> tuple[int, int]:
    """value as m * 2**e, m an int31, e from -64 to 63."""
    if value <= 0:
        return 0, 0
    mantissa, exponent = math.frexp(value)
    exponent -= FLOOR_BITS
    whole = min(round(mantissa * 2**FLOOR_BITS), 2**FLOOR_BITS - 1)
    if exponent < -64:
        return whole >> (-64 - exponent), -64
    if exponent > 63:
        raise ValueError(f"a floor of {value:g} in units of samples is above all sound")
    return whole, exponent


STEPS = {"LogMel": _log_mel}

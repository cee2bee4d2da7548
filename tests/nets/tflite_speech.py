"""Small .tflite files of Signal operators, from int16 samples to features of speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tflite_files import Tflite

from mica.importer.tflite import schema

FRAME, FFT, BINS, BANDS = 40, 64, 33, 3
LOW, HIGH = 2, 30  # bins that count
STEPS = 64  # of a logarithm
LOSS, OFFSET = 666, -128
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "SignalWindow": {"shift": 12},
    "SignalFftAutoScale": {},
    "SignalRfft": {"T": 7, "fft_length": FFT},
    "SignalEnergy": {"end_index": HIGH, "start_index": LOW},
    "SignalFilterBank": {"num_channels": BANDS},
    "SignalFilterBankSquareRoot": {},
    "SignalFilterBankSpectralSubtraction": {
        "alternate_one_minus_smoothing": 15401,
        "alternate_smoothing": 983,
        "clamping": 0,
        "min_signal_remaining": 819,
        "num_channels": BANDS,
        "one_minus_smoothing": 15975,
        "smoothing": 409,
        "smoothing_bits": 10,
        "spectral_subtraction_bits": 14,
    },
    "SignalPCAN": {"snr_shift": 6},
    "SignalFilterBankLog": {"input_correction_bits": 3, "output_scale": STEPS},
}


def flexbuffer(options: Mapping[str, int]) -> bytes:
    """A map of whole numbers, 4 bytes wide, with its names behind one another as in the files of others."""
    out, names = bytearray(), []
    for name in sorted(options):
        names.append(len(out))
        out += name.encode() + b"\0"
    out += bytes(-len(out) % 4)
    out += len(names).to_bytes(4, "little")
    keys = len(out)
    for k, at in enumerate(names):
        out += (keys + 4 * k - at).to_bytes(4, "little")
    out += (len(out) - keys).to_bytes(4, "little") + (4).to_bytes(4, "little") + len(names).to_bytes(4, "little")
    values = len(out)
    for name in sorted(options):
        out += options[name].to_bytes(4, "little", signed=True)
    out += bytes([1 << 2 | 2]) * len(names)
    return bytes(out + bytes([len(out) - values, 9 << 2 | 2, 1]))


def tables(seed: int = 0) -> dict[str, np.ndarray]:
    """Window, filters as a file has them, the curve."""
    rng = np.random.default_rng(seed)
    width = np.array([8, 10, 9, 12], np.int16)
    total = int(width.sum())
    own = rng.integers(0, 4097, total).astype(np.int16)
    return {
        "window": np.rint(4096 * np.sin(np.pi * (np.arange(FRAME) + 0.5) / FRAME)).astype(np.int16),
        "own": own,
        "next": (4096 - own).astype(np.int16),
        "first": np.array([0, 6, 14, 21], np.int16),
        "at": np.cumsum([0, *width[:-1]]).astype(np.int16),
        "width": width,
        "lut": _curve(),
    }


def _curve() -> np.ndarray:
    """Falls from interval to interval, without a bend."""
    out = np.zeros(125, np.int16)
    out[:2] = 32000, 31990
    for n in range(31):
        out[2 + 4 * n] = 31980 - 1000 * n
        if n < 30:
            out[3 + 4 * n] = -1000
    return out


class Chain:
    """A file in the making: `x`, one operator behind the other."""

    def __init__(self, changes: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.net = Tflite()
        self.changes = changes or {}
        self.x = self.at = self.net.tensor([1, FRAME], "int16", name="serving_default_audio:0")

    def signal(self, kind: str, more: Sequence[int], *ys: tuple[Sequence[int], str]) -> list[int]:
        outputs = [self.net.tensor(shape, dtype) for shape, dtype in ys]
        self.net.operator(kind, [self.at, *more], outputs)
        options = {**DEFAULTS[kind], **self.changes.get(kind, {})}
        self.net.operators[-1][schema.OPERATOR["custom_options"]] = np.frombuffer(flexbuffer(options), np.uint8)
        self.at = outputs[0]
        return outputs

    def plain(self, kind: str, more: Sequence[int], shape: Sequence[int], dtype: str, options: str = "") -> int:
        y = self.net.tensor(shape, dtype)
        self.net.operator(kind, [self.at, *more], [y], options)
        self.at = y
        return y

    def number(self, *values: int) -> int:
        """A constant of no dimensions, or of one."""
        return self.net.constant(np.array(values[0] if len(values) == 1 else values, np.int32))

    def limits(self, k: int) -> int:
        return self.net.constant(np.array([k], np.int32))


def spectrum(c: Chain, t: Mapping[str, np.ndarray], mask: bool = True) -> None:
    """Operators up to the logarithms."""
    net, n = c.net, BANDS
    c.signal("SignalWindow", [net.constant(t["window"])], ([1, FRAME], "int16"))
    c.plain("RESHAPE", [net.constant(np.array([-1], np.int32))], [FRAME], "int16")
    _, bits = c.signal("SignalFftAutoScale", [], ([FRAME], "int16"), ([], "int32"))
    c.signal("SignalRfft", [], ([2 * BINS], "int16"))
    c.signal("SignalEnergy", [], ([BINS], "uint32"))
    if mask:
        c.plain("CAST", [], [BINS], "int32")
        c.plain(
            "STRIDED_SLICE", [c.limits(LOW), c.limits(HIGH), c.limits(1)], [HIGH - LOW], "int32", "StridedSliceOptions"
        )
        zeros = [net.constant(np.zeros(k, np.int32)) for k in (LOW, BINS - HIGH)]
        y = net.tensor([BINS], "int32")
        net.operator("CONCATENATION", [zeros[0], c.at, zeros[1]], [y], "ConcatenationOptions", {"axis": 0})
        c.at = y
        c.plain("CAST", [], [BINS], "uint32")
    c.signal("SignalFilterBank", [net.constant(t[k]) for k in ("own", "next", "first", "at", "width")], ([n], "uint64"))
    c.signal("SignalFilterBankSquareRoot", [bits], ([n], "uint32"))
    _, noise = c.signal("SignalFilterBankSpectralSubtraction", [], ([n], "uint32"), ([n], "uint32"))
    c.signal("SignalPCAN", [noise, net.constant(t["lut"])], ([n], "uint32"))
    c.signal("SignalFilterBankLog", [], ([n], "int16"))


def to_int8(c: Chain, factor: int = 256, add: int = LOSS // 2, loss: int = LOSS, offset: int = OFFSET) -> None:
    """(v * factor + add) / loss + offset, limited."""
    n = [BANDS]
    c.plain("CAST", [], n, "int32")
    for kind, value in (
        ("MUL", factor),
        ("ADD", add),
        ("DIV", loss),
        ("ADD", offset),
        ("MINIMUM", 127),
        ("MAXIMUM", -128),
    ):
        options = {"MUL": "MulOptions", "ADD": "AddOptions", "DIV": "DivOptions"}.get(kind, "")
        c.plain(kind, [c.number(value)], n, "int32", options)
    c.plain("CAST", [], n, "int8")


def speech(changes: Mapping[str, Mapping[str, int]] | None = None, mask: bool = True, **tail: int) -> bytes:
    """int16 [1, 40] -> int8 [3]. changes: options of an operator. tail: of to_int8."""
    c = Chain(changes)
    spectrum(c, tables(), mask)
    to_int8(c, **tail)
    return c.net.bytes([c.x], [c.at])


def speech_to_reals() -> bytes:
    """The logarithms as float32, and a dense layer of weights of a half."""
    c = Chain()
    spectrum(c, tables())
    c.plain("CAST", [], [BANDS], "float32")
    c.plain("RESHAPE", [c.number(1, BANDS)], [1, BANDS], "float32")
    w, b = c.net.constant(np.full((2, BANDS), 0.5, np.float32)), c.net.constant(np.zeros(2, np.float32))
    c.plain("FULLY_CONNECTED", [w, b], [1, 2], "float32", "FullyConnectedOptions")
    return c.net.bytes([c.x], [c.at])

"""The Signal operators of TensorFlow Lite Micro: a chain of them from samples to features becomes one layer.

x int16 -> SignalWindow -> SignalFftAutoScale -> SignalRfft -> SignalEnergy -> bins that become 0 -> SignalFilterBank ->
...SquareRoot
  -> ...SpectralSubtraction -> SignalPCAN -> ...Log -> a factor, rounded, to int8, or float32      =>   x -> LogMel

The kernel of LogMel computes with the same integers (`kernels/speech.py`), so the file's own tables go into it.
Whatever it has no parameter for is refused by the operator's name. The noise goes on from run to run.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from mica.importer.tflite import flexbuffer, schema
from mica.importer.tflite.flatbuffer import Damaged
from mica.importer.tflite.model import Model, Operator
from mica.ir.front_end import FrontEnd, speech_front_end
from mica.ir.graph import Quant
from mica.kernels import speech as kernel
from mica.printable import printable
from mica.reference import speech

KINDS = (
    *("SignalWindow", "SignalFftAutoScale", "SignalRfft", "SignalEnergy", "SignalFilterBank"),
    *("SignalFilterBankSquareRoot", "SignalFilterBankSpectralSubtraction", "SignalPCAN", "SignalFilterBankLog"),
)
WINDOW_SHIFT = 12
MOST_GAINS = 1 << 16
USUAL_RATE = 16000
_SCALARS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
_LIMITS = {"MINIMUM": np.minimum, "MAXIMUM": np.maximum}


@dataclass(frozen=True)
class Found:
    """A chain: its operators, the input that is sound, and the tensor of its features, int8 with a quant,
    or float32 without.

    coarse: a feature may be one step beside the file's, whose factor is rounded in a way of its own.
    """

    operators: frozenset[int]
    samples: int
    result: int
    front_end: FrontEnd
    quant: Quant | None
    coarse: bool


@dataclass(frozen=True)
class _Tail:
    result: int
    quant: Quant | None = None
    least: float | None = None
    most: float | None = None
    coarse: bool = False


def find(model: Model) -> Found | None:
    """The chain of a file; None where it has no such operators.
    Raises ValueError, naming the operator that is in the way."""
    mine = [op for op in model.operators if op.kind in KINDS]
    if not mine:
        return None
    starts = [op for op in mine if op.kind == KINDS[0]]
    if len(starts) != 1:
        raise ValueError(
            f"{_where(mine[0])}: the file has {len(starts)} SignalWindow; expected one, which begins a chain"
        )
    chain = _Chain(model, starts[0])
    found = chain.run()
    if left := [op for op in mine if op.index not in found.operators]:
        raise ValueError(f"{_where(left[0])}: it is no part of the chain that begins with {_where(starts[0])}")
    return found


def _where(op: Operator) -> str:
    return f"operator {op.index} ({printable(op.kind)})"


class _Chain:
    """Goes from operator to operator; `op` is the one that is being read."""

    def __init__(self, model: Model, start: Operator) -> None:
        self.model, self.op = model, start
        self.covered = [start.index]
        self.readers: dict[int, list[Operator]] = {}
        for op in model.operators:
            for i in set(op.inputs):
                self.readers.setdefault(i, []).append(op)

    def run(self) -> Found:
        try:
            return self._run()
        except (ValueError, Damaged) as e:
            raise ValueError(f"{_where(self.op)}: {e}") from None

    def _run(self) -> Found:
        samples, window, params = self._window()
        bits = self._transform(params)
        low, high, others = self._energies(params)
        filters, gains = self._filters(params, low, high, others, bits)
        lut = self._noise(params)
        out = self._logarithm(params)
        frame = len(window)
        params["hop"] = max(2 * frame // 3, 1)
        tail = self._tail(out, params["log_places"])
        if math.prod(shape := self.model.tensors[tail.result].shape) != params["bands"]:
            raise ValueError(f"its output is {list(shape)}; expected {params['bands']} features")
        worth = 1.0 if tail.quant is None else 2.0 ** -params["log_places"]
        tables = speech.given(window, filters, gains, lut, params, worth)
        front_end = replace(speech_front_end(tables, USUAL_RATE, frame), keeps=True, least=tail.least, most=tail.most)
        return Found(frozenset(self.covered), samples, tail.result, front_end, tail.quant, tail.coarse)

    # Steps on the way

    def _next(self, tensor: int, *kinds: str) -> Operator:
        """The one operator that reads a tensor. Raises ValueError where it is of another kind."""
        found = self.readers.get(tensor, [])
        if tensor in self.model.outputs or len(found) != 1:
            raise ValueError("its output goes somewhere else too" if found else "nothing reads its output")
        op = found[0]
        if op.kind not in kinds:
            raise ValueError(f"{_where(op)} reads its output; expected {' or '.join(kinds)}")
        self.op = op
        self.covered.append(op.index)
        return op

    def _ends(self, inputs: int, outputs: int = 1) -> tuple[int, ...]:
        op = self.op
        if (len(op.inputs), len(op.outputs)) != (inputs, outputs) or -1 in op.inputs:
            raise ValueError(f"{len(op.inputs)} inputs and {len(op.outputs)} outputs; expected {inputs} and {outputs}")
        return op.inputs

    def _options(self, **expected: tuple[int, int]) -> dict[str, int]:
        """Return those of the operator that is being read; each lies within two limits."""
        found = flexbuffer.options(self.op.custom)
        for name, (least, most) in expected.items():
            if name not in found:
                raise ValueError(f"its option '{name}' is missing")
            if not least <= found[name] <= most:
                raise ValueError(
                    f"{name} is {found[name]}; mica takes {least}" + (f" to {most}" if most > least else "")
                )
        return found

    def _table(self, i: int, dtype: str, what: str) -> np.ndarray:
        t = self.model.tensors[i]
        if t.data is None or t.dtype != dtype:
            raise ValueError(f"{what} are no constants of {dtype}")
        return t.data.reshape(-1).astype(np.int64)

    def _window(self) -> tuple[int, np.ndarray, dict[str, int]]:
        x, weights = self._ends(2)
        self._options(shift=(WINDOW_SHIFT, WINDOW_SHIFT))
        window, t = self._table(weights, "int16", "its weights"), self.model.tensors[x]
        if x not in self.model.inputs or self.readers[x] != [self.op]:
            raise ValueError(
                f"tensor {x} '{printable(t.name)}' is not an input that it alone reads; mica takes frames from outside"
            )
        if t.dtype != "int16" or math.prod(t.shape) != len(window) or t.shape[-1:] != (len(window),):
            raise ValueError(
                f"its input is {t.dtype} {list(t.shape)} and its window has {len(window)} weights; expected "
                "int16 of one frame"
            )
        return x, window.astype(np.int16), {"frame": len(window)}

    def _transform(self, p: dict[str, int]) -> int:
        """Read as far as the transform. Returns the tensor of how far the frame was shifted."""
        op = self._next(self.op.outputs[0], "RESHAPE", KINDS[1])
        if op.kind == "RESHAPE":
            op = self._next(op.outputs[0], KINDS[1])
        self._ends(1, 2)
        bits = op.outputs[1]
        self._next(op.outputs[0], KINDS[2])
        self._ends(1)
        p["fft"] = self._options(fft_length=(kernel.LEAST_POINTS, kernel.MOST_POINTS))["fft_length"]
        if p["fft"] & (p["fft"] - 1) or p["fft"] < p["frame"]:
            raise ValueError(
                f"fft_length is {p['fft']}; expected a power of two, at least the {p['frame']} samples of a frame"
            )
        if (t := self.model.tensors[self.op.outputs[0]]).dtype != "int16":
            raise ValueError(f"its output is {t.dtype}; mica has the transform of int16")
        return bits

    def _energies(self, p: dict[str, int]) -> tuple[int, int, bool]:
        """The bins that count: first, and the one behind the last; and whether all others are 0."""
        bins = p["fft"] // 2 + 1
        self._next(self.op.outputs[0], KINDS[3])
        self._ends(1)
        found = self._options(start_index=(0, bins), end_index=(0, bins))
        made = found["start_index"], found["end_index"]
        op = self._next(self.op.outputs[0], "CAST", KINDS[4])
        if op.kind != "CAST":
            return *made, False
        self._ends(1)
        kept = self._kept(self._next(op.outputs[0], "STRIDED_SLICE"), bins)
        if kept[0] < made[0] or kept[1] > made[1]:
            raise ValueError(f"bins {kept[0]} to {kept[1]} are taken, and {made[0]} to {made[1]} computed")
        self._next(self.op.outputs[0], "CAST")
        self._ends(1)
        self._next(self.op.outputs[0], KINDS[4])
        return *kept, True

    def _kept(self, op: Operator, bins: int) -> tuple[int, int]:
        """Find where a slice begins and ends, between zeros so that all is as long as before."""
        _, *limits = self._ends(4)
        low, high, stride = (self._table(i, "int32", "its limits").tolist() for i in limits)
        masks = op.options is not None and any(op.options.integer(k, "i") for k in range(5))
        if len(low) != 1 or len(high) != 1 or stride != [1] or masks or not 0 <= low[0] < high[0] <= bins:
            raise ValueError("it takes no range of bins")
        join = self._next(op.outputs[0], "CONCATENATION")
        inputs = list(self._ends(3))
        if inputs[1] != op.outputs[0]:
            raise ValueError("the bins that are taken are not between zeros")
        before, behind = (self._table(i, "int32", "what it puts round the bins") for i in (inputs[0], inputs[2]))
        if before.any() or behind.any() or (len(before), len(behind)) != (low[0], bins - high[0]):
            raise ValueError("it moves bins, or puts other numbers than 0 beside them")
        if join.options is not None and join.options.integer(0, "i") not in (0, -1):
            raise ValueError("it concatenates along another dimension than the bins'")
        return low[0], high[0]

    def _filters(
        self, p: dict[str, int], low: int, high: int, others: bool, bits: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """First bins and widths, and gains for a band and the next, as far as they are not 0."""
        _, *tables = self._ends(6)
        p["bands"] = self._options(num_channels=(1, 1024))["num_channels"]
        own, next_, first, at, width = (self._table(i, "int16", "its tables") for i in tables)
        bands, bins = p["bands"] + 1, p["fft"] // 2 + 1
        if not len(first) == len(at) == len(width) == bands or len(own) != len(next_):
            raise ValueError(f"its tables are not those of {p['bands']} channels")
        if min(t.min(initial=0) for t in (own, next_, first, at, width)) < 0:
            raise ValueError("a number of its tables is negative")
        if (first + width > bins).any() or (at + width > len(own)).any() or width.sum() > MOST_GAINS:
            raise ValueError(f"a channel lies outside of the {bins} bins, or of its {len(own)} weights")
        both = np.stack([own, next_], axis=1)
        places, gains = [], []
        for f, a, n in zip(first.tolist(), at.tolist(), width.tolist(), strict=True):
            inside = ((low <= f + np.arange(n)) & (f + np.arange(n) < high))[:, None]
            part = np.where(inside, both[a : a + n], 0)
            if not others and (both[a : a + n] != part).any():
                raise ValueError(f"it takes bins beside {low} to {high}, which are all that is computed")
            some = np.flatnonzero(part.any(axis=1))
            begin, end = (int(some[0]), int(some[-1]) + 1) if len(some) else (0, 0)
            places.append((f + begin if end else 0, end - begin))
            gains.append(part[begin:end])
        found = np.array(places, np.uint16), np.concatenate(gains).astype(np.uint16)
        p["gains"] = len(found[1])
        self._next(self.op.outputs[0], KINDS[5])
        if self._ends(2)[1] != bits or len(self.readers[bits]) != 1:
            raise ValueError("it scales with another number than the frame was scaled with")
        return found

    def _noise(self, p: dict[str, int]) -> np.ndarray:
        """Read as far as the gains. Returns the curve of the gain."""
        self._next(self.op.outputs[0], KINDS[6])
        self._ends(1, 2)
        one = 1 << kernel.NOISE_BITS
        o = self._options(
            num_channels=(p["bands"], p["bands"]),
            smoothing=(0, one),
            alternate_smoothing=(0, one),
            min_signal_remaining=(0, one),
            smoothing_bits=(0, 16),
            spectral_subtraction_bits=(kernel.NOISE_BITS, kernel.NOISE_BITS),
            clamping=(0, 0),
        )
        for smooth, rest in (
            ("smoothing", "one_minus_smoothing"),
            ("alternate_smoothing", "alternate_one_minus_smoothing"),
        ):
            if o.get(rest) != one - o[smooth]:
                raise ValueError(f"{smooth} and {rest} are not {one} together")
        p |= {"even": o["smoothing"], "odd": o["alternate_smoothing"], "least": o["min_signal_remaining"]}
        p["places"] = o["smoothing_bits"]
        left, noise = self.op.outputs
        self._next(left, KINDS[7])
        inputs = self._ends(3)
        if inputs[:2] != (left, noise) or len(self.readers.get(noise, [])) != 1 or noise in self.model.outputs:
            raise ValueError("it takes another noise than the one that was taken off")
        p["snr_shift"] = self._options(snr_shift=(0, 31))["snr_shift"]
        lut = self._table(inputs[2], "int16", "its gains")
        if len(lut) != kernel.LUT:
            raise ValueError(f"{len(lut)} gains; expected {kernel.LUT}")
        return lut.astype(np.int16)

    def _logarithm(self, p: dict[str, int]) -> int:
        self._next(self.op.outputs[0], KINDS[8])
        self._ends(1)
        o = self._options(output_scale=(1, 1 << 10), input_correction_bits=(-31, 31))
        if o["output_scale"] & (o["output_scale"] - 1):
            raise ValueError(f"output_scale is {o['output_scale']}; expected a power of two")
        p |= {"correction": o["input_correction_bits"], "log_places": o["output_scale"].bit_length() - 1}
        return self.op.outputs[0]

    # Behind the logarithm

    def _tail(self, out: int, places: int) -> _Tail:
        """The operators behind the logarithm: a factor and limits in integers down to int8, or a cast to float32."""
        op = self._next(out, "CAST")
        self._ends(1)
        result = op.outputs[0]
        if self.model.tensors[result].dtype == "float32":
            return _Tail(result)
        if self.model.tensors[result].dtype != "int32":
            raise ValueError(f"its output is {self.model.tensors[result].dtype}; expected int32 or float32")
        most = math.ceil(32 * math.log(2) * 2**places)
        v = np.arange(most + 1)
        above = below = 1
        while True:
            op = self._next(result, *_SCALARS, *_LIMITS, "CAST")
            if op.kind == "CAST":
                self._ends(1)
                break
            v, factor, divisor = self._scalar(op, result, v)
            above, below = above * factor, below * divisor
            if max(int(np.abs(v).max()), abs(above), abs(below)) > 2**31 - 1:
                raise ValueError("its results leave int32")
            result = op.outputs[0]
        result = op.outputs[0]
        t = self.model.tensors[result]
        if t.dtype != "int8" or v.min() < -128 or v.max() > 127:
            raise ValueError(
                f"its output is {t.dtype}, of numbers from {v.min()} to {v.max()}; expected int8 that holds them"
            )
        if above <= 0 or below <= 0:
            raise ValueError("the logarithms are multiplied with a factor that is not above 0")
        zero = int(v[0])
        expected = np.clip((2 * np.arange(most + 1) * above + below) // (2 * below) + zero, v.min(), v.max())
        off = int(np.abs(v - expected).max())
        if off > 1:
            raise ValueError(f"what is behind the logarithm is no factor with an addend: up to {off} steps beside one")
        quant = Quant(below / above * 2.0**-places, zero)
        if t.grid is not None:
            if int(t.grid.zero_point[0]) != zero:
                raise ValueError(f"its zero point is {int(t.grid.zero_point[0])}, and the logarithm 0 becomes {zero}")
            quant = Quant(float(t.grid.scale[0]), zero)
        low, high = (quant.scale * (int(b) - zero) for b in (v.min(), v.max()))
        return _Tail(
            result,
            quant,
            None if v.min() == -128 or zero == v.min() else low,
            None if v.max() == 127 else high,
            off > 0,
        )

    def _scalar(self, op: Operator, tensor: int, v: np.ndarray) -> tuple[np.ndarray, int, int]:
        """The numbers behind an operator with a constant, and its factor and divisor."""
        ends = self._ends(2)
        other = ends[1] if ends[0] == tensor else ends[0]
        beside = self._table(other, "int32", "its other numbers")
        if len(beside) != 1 or other == tensor:
            raise ValueError("it takes more than one number beside the logarithms")
        if op.kind in ("SUB", "DIV") and ends[0] != tensor:
            raise ValueError("the logarithms are what it subtracts, or divides by")
        if op.kind in _SCALARS and op.options is not None:
            slot = schema.OPTIONS[_SCALARS[op.kind]][1]["activation"][0]
            if op.options.integer(slot, "b"):
                raise ValueError("it has an activation function")
        c = int(beside[0])
        if op.kind in _LIMITS:
            return _LIMITS[op.kind](v, c), 1, 1
        if op.kind == "DIV":
            if c == 0:
                raise ValueError("it divides by 0")
            return np.sign(v) * np.sign(c) * (np.abs(v) // abs(c)), 1, c
        if op.kind == "MUL":
            return v * c, c, 1
        return v + (c if op.kind == "ADD" else -c), 1, 1

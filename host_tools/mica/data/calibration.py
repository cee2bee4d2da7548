"""Calibration samples: read from a file or a folder, checked against the model, or made up where there are none.

    X.npz       an array for each input, by name; or `x`, with `scale` and `offset` (input = x * scale + offset)
    X.npy       samples of the only input
    a folder    of .npy files (a sample each, or several) of the only input, or of .npz files with all inputs,
                or of pictures (needs Pillow), or of sound files (.wav, .flac, .ogg), in folders of their own too
    X.csv       a table (also .tsv) with a row for each sample of the only input,
                or for each row of its windows: see tables.py
    X.wav       sound for a model that takes samples of it, cut into as many pieces as there are

Pictures become the input's size, its number of channels (1 grey, 3 RGB, 4 RGBA) and its layout, NHWC or NCHW, as frames
of a camera do on a board; the input is pixel * scale + offset, by default pixel / 255: 0 to 1. `Pixels` says otherwise.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mica.data import array_files, pictures, sounds, tables
from mica.errors import MicaError
from mica.file.pictures import CHANNELS, layout
from mica.ir.exact_inputs import takes_missing
from mica.ir.graph import Graph, Value
from mica.ir.ops import FRONT_ENDS
from mica.notes import note
from mica.printable import some

MADE_UP_SAMPLES = 16
AREAS = 4  # of made-up samples, along each axis
MADE_UP_BYTES = 128 << 20  # of all inputs and outputs of all these samples, at most
LARGEST_MADE_UP = 1e9  # the mean and the deviation of a made-up input stay below
# How many times the size of what a network expects its samples may have before that is said: bytes of pixels, and
# others. `expected_input` is off by a factor of 1.5 on the reference models.
PIXELS, BEYOND = 12, 30


@dataclass(frozen=True)
class Pixels:
    """The conversion of a picture's bytes to an input: pixel * scale + offset, each one number or one a channel.

    colours: "" by the number of channels.
    """

    scale: tuple[float, ...] = (1 / 255,)
    offset: tuple[float, ...] = (0.0,)
    colours: str = ""

    def check(self, channels: int) -> None:
        """Raises MicaError where there are numbers for other channels."""
        for name, numbers_ in (("scale", self.scale), ("offset", self.offset)):
            if len(numbers_) not in (1, channels):
                raise MicaError(f"pixel {name}: {len(numbers_)} numbers for {channels} channels")


def read_arrays(path: str | Path, inputs: tables.Inputs | None = None) -> Mapping[str, np.ndarray]:
    """Return the arrays of an .npz file, of a table, or {"x": array} of an .npy file. inputs: of the model, for tables.
    Raises MicaError."""
    path = Path(path)
    if tables.is_table(path):
        return tables.read(path, inputs or tables.Inputs())
    if not path.is_file():
        raise MicaError(f"{path}: {'is no file' if path.exists() else 'no such file'}")
    try:
        return array_files.Arrays(path)
    except array_files.NoArrays:
        if sounds.is_sound(path):
            raise MicaError(f"{path}: is sound", todo="expected an .npz or .npy file") from None
        if (ending := path.suffix.lower()) not in ("", ".npz", ".npy"):
            todo = f"expected .npz, .npy, sound, or a picture ({', '.join(pictures.ENDINGS)})"
            raise MicaError(f"{path}: mica reads no {ending} files", todo=todo) from None
        raise MicaError(f"{path}: not an .npz or .npy file: it holds no plain arrays of numbers") from None


def decode(arrays: Mapping[str, np.ndarray], where: str = "data") -> np.ndarray:
    """`x` of an evaluation or calibration file, or its only samples, float32: x * scale + offset if it says so."""
    samples = [name for name in arrays if name == "x"] or [name for name in arrays if name not in _BESIDE]
    if len(samples) != 1:
        raise MicaError(f"{where}: has no array 'x' (it holds: {some(arrays) or 'nothing'})")
    y = numbers(samples[0], arrays[samples[0]], where)
    for name in ("scale", "offset"):
        if name in arrays:
            a = arrays[name]
            if a.dtype.kind not in "fiub" or not _broadcasts(a.shape, y.shape):
                raise MicaError(
                    f"{where}: '{name}' {list(a.shape)} is not for 'x' {list(y.shape)}", todo="expected one number"
                )
            with np.errstate(over="ignore", invalid="ignore"):  # whoever takes it refuses infinity
                (np.multiply if name == "scale" else np.add)(y, np.float32(a), out=y)
    return y


# Arrays that files have beside their samples.
_BESIDE = ("y", "scale", "offset", "metric", "window", "stride", "rate", "tokens", "lengths", "labels")


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """True if an array of `shape` broadcasts to the shape `to`."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def numbers(name: str, x: np.ndarray, where: str) -> np.ndarray:
    """An array of a file as float32. Raises MicaError where it holds something else than samples of numbers."""
    if x.dtype.kind not in "fiub" or x.ndim == 0:
        what = f"type {x.dtype}" if x.ndim else "one value"
        raise MicaError(f"{where}: '{name}' has {what}", todo="expected samples of numbers")
    return x.astype(np.float32)


def _with_length(arrays: Mapping[str, np.ndarray], inputs: Sequence[str]) -> Mapping[str, np.ndarray]:
    """Add the length (position + 1) if only that is missing and a token's position is there.

    The model's own rows limit it.
    """
    missing = [name for name in inputs if name not in arrays]
    if len(missing) == 1 and "length" in missing[0].lower() and "position" in inputs and "position" in arrays:
        return {**arrays, missing[0]: np.asarray(arrays["position"]) + 1}
    return arrays


def load_calibration(
    path: str | Path,
    inputs: list[str],
    shapes: Mapping[str, Sequence[int]] | None = None,
    pixels: Pixels | None = None,
    rate: int = 0,
    say: Callable[[str], None] = lambda line: None,
    table: tables.Inputs | None = None,
) -> dict[str, np.ndarray]:
    """Calibration arrays by input name: an array named as the input, or `x` for a model with one input.

    shapes: of the inputs, with their batch of 1; needed for folders and tables.
    rate: samples a second of sound, 0 for a model that takes none. say: is told of recordings that were padded.
    table: what is known of a table's columns; its shapes are `shapes`.
    """
    if Path(path).is_dir() or sounds.is_sound(path):
        return _load_folder(Path(path), inputs, shapes or {}, pixels or Pixels(), rate, say, table)
    table = replace(table or tables.Inputs(), shapes={name: shapes[name] for name in inputs} if shapes else {})
    arrays = _with_length(read_arrays(path, table), inputs)
    if inputs != ["x"] and all(name in arrays for name in inputs):  # an input called x has scale and offset, too
        return {name: numbers(name, arrays[name], str(path)) for name in inputs}
    if len(inputs) == 1:
        return {inputs[0]: decode(arrays, str(path))}
    raise MicaError(
        f"{path}: holds {some(arrays)}", todo=f"expected one array for each of the inputs {', '.join(inputs)}"
    )


def sample_files(path: str | Path) -> list[Path]:
    """The files that load_calibration reads: of a folder those that hold samples, in order of their names."""
    if not Path(path).is_dir():
        return [Path(path)]
    endings = (".npy", ".npz", *tables.ENDINGS, *sounds.ENDINGS, *pictures.ENDINGS)
    found = sorted(p for p in Path(path).iterdir() if p.suffix.lower() in endings)
    return found or sorted(p for p in Path(path).glob("*/*") if sounds.is_sound(p) or pictures.is_picture(p))


def holds_pictures(path: str | Path) -> bool:
    """True if load_calibration finds pictures there."""
    return Path(path).is_dir() and any(pictures.is_picture(p) for p in sample_files(path))


def _kind(path: Path) -> str:
    return "pictures" if pictures.is_picture(path) else "sound" if sounds.is_sound(path) else path.suffix.lower()


def _load_folder(
    folder: Path,
    inputs: list[str],
    shapes: Mapping[str, Sequence[int]],
    pixels: Pixels,
    rate: int,
    say: Callable[[str], None],
    table: tables.Inputs | None,
) -> dict[str, np.ndarray]:
    """All samples of a folder's files, in order of their names."""
    files = sample_files(folder)
    kinds = {_kind(p) for p in files}
    if not files:
        raise MicaError(f"{folder}: holds no .npy, .npz, .csv, .png, .jpeg, .wav, .flac or .ogg files")
    if len(kinds) > 1:
        raise MicaError(f"{folder}: holds {' and '.join(sorted(kinds))}", todo="expected one kind of samples")
    if kinds != {".npz"} and len(inputs) != 1:
        raise MicaError(
            f"{folder}: the model has the inputs {', '.join(inputs)}", todo="expected .npz files that hold them all"
        )
    if kinds == {"sound"}:
        if not rate:
            raise MicaError(
                f"{files[0]}: is sound, and the model takes features of it",
                todo="mica pack --frontend puts them into the model",
            )
        n = math.prod(shapes.get(inputs[0], ()))
        if n != shapes[inputs[0]][-1]:
            raise MicaError(
                f"{files[0]}: is sound, and the model takes rows of {shapes[inputs[0]][-1]} numbers",
                todo="expected an .npz whose x is int16 [n, rows, axes]",
            )
        if line := sounds.padding(files, rate, n):
            say(line)
        return {inputs[0]: np.concatenate([sounds.pieces(p, rate, n) for p in files]).reshape(-1, *shapes[inputs[0]])}
    if kinds == {"pictures"}:
        shape = tuple(shapes.get(inputs[0], ()))
        return {
            inputs[0]: np.concatenate(
                [x for _, x in pictures.readable(files, lambda p: _read_picture(p, shape, pixels))]
            )
        }
    parts: dict[str, list[np.ndarray]] = {name: [] for name in inputs}
    for path in files:
        for name, x in load_calibration(path, inputs, shapes, table=table).items():
            shape = tuple(shapes.get(name, x.shape))
            single = x.shape in (shape, shape[1:])
            parts[name].append(fit(name, x.reshape(1, *shape) if single else x, shape, f"{path}: "))
    return {name: np.concatenate(p) for name, p in parts.items()}


def _read_picture(path: Path, shape: tuple[int, ...], pixels: Pixels) -> np.ndarray:
    """float32 [1, ...input]. Raises MicaError."""
    found = layout(shape, pixels.colours)
    if found is None:
        raise MicaError(
            f"{path}: is a picture, but the model's input is {list(shape)}",
            todo="expected [1, height, width, channels] or [1, channels, height, width] with 1, 3 or 4 channels",
        )
    colours, height, width, planes = found
    pixels.check(CHANNELS[colours])
    y = pictures.resized(path, colours, height, width)
    x = y * np.asarray(pixels.scale, np.float32) + np.asarray(pixels.offset, np.float32)
    return np.ascontiguousarray(x.transpose(2, 0, 1) if planes else x).reshape(1, *shape[1:])


def learnt_missing(g: Graph) -> bool:
    """An imported model with a value for missing features, or with trees that know where they go."""
    return any(n.op == "Imputer" or ("forest" in n.attrs and n.attrs["forest"].learnt) for n in g.nodes)


def samples_for(g: Graph, arrays: Mapping[str, np.ndarray], finite: bool = True) -> list[dict[str, np.ndarray]]:
    """One dict of input arrays a sample. Raises MicaError where shapes do not fit or there is nothing to see.

    finite: False before it is known which features may be missing."""
    columns: dict[str, np.ndarray] = {}
    for name in g.inputs:
        if name not in arrays:
            raise MicaError(f"input '{name}': the calibration data holds {some(arrays) or 'nothing'}")
        columns[name] = _real(g.value(name), fit(name, arrays[name], g.value(name).shape))
        if len(columns[name]) == 0:
            raise MicaError(f"input '{name}': the calibration data holds no samples")
        if finite:
            _require_finite(g, name, columns[name])
    n = min(len(c) for c in columns.values())
    return [{name: c[k] for name, c in columns.items()} for k in range(n)]


def _require_finite(g: Graph, name: str, x: np.ndarray) -> None:
    """Raises MicaError where samples [n, ...] hold infinity, or a NaN where the model knows no missing values."""
    if not np.isfinite(x).all():
        bad = ~np.isfinite(x) & ~(np.isnan(x) & takes_missing(g, name))
        if bad.any():
            sample = int(np.argmax(bad.reshape(len(x), -1).any(axis=1)))
            raise MicaError(
                f"calibration sample {sample}: input '{name}' holds NaN or infinity", todo="clean the calibration data"
            )


def _real(value: Value, x: np.ndarray) -> np.ndarray:
    """Samples of an 8-bit input as the real numbers that they stand for."""
    if value.dtype not in ("int8", "uint8") or value.quant is None:
        return np.asarray(x, np.float32)
    moved = 128 if value.dtype == "uint8" else 0
    real = (np.asarray(x, np.float64) - moved - value.quant.zero_point) * value.quant.scale
    return np.asarray(real, np.float32)


def fit(name: str, x: np.ndarray, shape: tuple[int, ...], where: str = "") -> np.ndarray:
    """Samples of an input -> [n, *shape], where shape begins with the batch of 1. Raises MicaError."""
    if x.ndim == len(shape) > 0 and x.shape[1:] == shape[1:] and shape[0] == 1:
        return x.reshape(len(x), *shape)
    if x.ndim == len(shape) + 1 and x.shape[1:] == shape:
        return x
    if (moved := _channels_moved(x, shape)) is not None:
        return moved
    expected = ", ".join(["n", *(str(d) for d in (shape[1:] if shape[:1] == (1,) else shape))])
    raise MicaError(f"{where}input '{name}': samples have shape {list(x.shape)}", todo=f"expected [{expected}]")


def fit_any(name: str, x: np.ndarray, shape: tuple[int, ...], where: str = "") -> np.ndarray:
    """Do as fit(), also for one sample without an axis for it, and for samples flat or without axes of 1.

    Raises MicaError.
    """
    inner = shape[1:] if shape[:1] == (1,) else shape
    forms = [tuple(d for d in dims if d != 1) for dims in (inner, (math.prod(inner),))]
    for n, dims in ((1, x.shape), (x.shape[0] if x.ndim else 0, x.shape[1:])):
        if tuple(d for d in dims if d != 1) in forms and x.size == n * math.prod(inner):
            return x.reshape(n, *shape)
    if x.ndim == 3 and (moved := _channels_moved(x[None], shape)) is not None:
        return moved
    return fit(name, x, shape, where)


def _channels_moved(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Pictures [n, ...] whose channels are last where the model's are first, or the other way round, as [n, *shape];
    None of others.

    Also grey ones that leave the axis of their only channel out.
    """
    if len(shape) != 4 or shape[0] != 1:
        return None
    if (
        x.ndim == 3
        and 1 in (shape[1], shape[3])
        and x.shape[1:] == tuple(np.delete(shape[1:], 0 if shape[1] == 1 else 2))
    ):
        return x.reshape(len(x), *shape)
    for axes in ((0, 3, 1, 2), (0, 2, 3, 1)):
        if x.ndim == 4 and tuple(x.shape[a] for a in axes[1:]) == shape[1:]:
            note(
                "samples",
                f"{list(x.shape)} have their channels at the other end; they become [n, "
                f"{', '.join(map(str, shape[1:]))}]",
            )
            return np.ascontiguousarray(x.transpose(axes)).reshape(len(x), *shape)
    return None


def default_samples(g: Graph) -> list[dict[str, np.ndarray]]:
    """Made-up inputs of a graph of core operators: normal numbers with the mean and deviation that its weights expect.

    Sound is noise of all sizes. Where nothing can be told from the weights: half of them normal with variance 1, half
    uniform in [0, 1]. Integer inputs take all their values.
    """
    size = MADE_UP_SAMPLES * sum(4 * g.value(name).size for name in (*g.inputs, *g.outputs))
    if size > MADE_UP_BYTES:
        raise MicaError(
            f"{MADE_UP_SAMPLES} made-up samples of its inputs and outputs would take {size:,} bytes",
            todo=f"expected at most {MADE_UP_BYTES:,}. Give real ones with --calib",
        )
    rng = np.random.default_rng(0)
    expected = {name: expected_input(g, name) for name in g.inputs}
    sounds_of = {n.inputs[0]: n.attrs["front_end"].step for n in g.nodes if n.op in FRONT_ENDS}

    def sample(name: str, k: int) -> np.ndarray:
        v = g.value(name)
        if v.dtype == "int32":
            return rng.integers(0, table_rows(g, name), v.shape).astype(np.float32)
        if v.dtype == "bool":
            return rng.integers(0, 2, v.shape).astype(np.float32)
        if v.quant is not None:  # the file's own range
            low, high = (float(level) for level in v.quant.levels()[[0, -1]])
            return (low + (high - low) * _varied(v.shape, rng)).astype(np.float32)
        if v.dtype != "float32":
            limits = np.iinfo(v.dtype)
            return _real(v, rng.integers(limits.min, limits.max + 1, v.shape))
        if name in sounds_of:  # noise, from next to nothing to as loud as it can be
            size = 10.0 ** (4.5 * k / (MADE_UP_SAMPLES - 1))
            noise = np.clip(np.rint(size * rng.standard_normal(v.shape)), -(2**15), 2**15 - 1)
            return (noise * sounds_of[name]).astype(np.float32)
        if (found := expected[name]) is not None:
            return (found[0] + found[1] * rng.standard_normal(v.shape)).astype(np.float32)
        return (rng.standard_normal(v.shape) if k % 2 else rng.random(v.shape)).astype(np.float32)

    return [{name: sample(name, k) for name in g.inputs} for k in range(MADE_UP_SAMPLES)]


def _varied(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers from 0 to 1, float64: a level for each channel, with areas and noise.
    Noise alone has a mean that never changes."""
    if sum(n > 1 for n in shape) < 2:  # a row of features
        return rng.random(shape)
    level = rng.random([n if n <= AREAS else 1 for n in shape])
    coarse = rng.random([min(n, AREAS) for n in shape])
    areas = coarse[np.ix_(*[np.arange(n) * min(n, AREAS) // n for n in shape])]
    return np.clip(level + (areas - 0.5) / 2 + (rng.random(shape) - 0.5) / 4, 0, 1)


def expected_input(g: Graph, name: str) -> tuple[float, float] | None:
    """(mean, standard deviation) of an input, from the first layer's weights; None where there is no such layer.

    Trained layers, with a batch normalisation folded in even more so, give numbers around 0 and of size 1. So the mean
    m is the one that the biases make up for: the least squares solution of m * sum(w[o]) + b[o] = 0 over channels o.
    The variance is the one that gives the median channel variance 1. It takes neighbours in the input as correlated
    by 0.7, as they are in pictures and spectra. Estimated and true (mean, deviation): kws (-0.3, 6.5)
    and (-1.8, 8.4), ic (93, 88) and (120, 65), vww (0.51, 0.46) and (0.42, 0.26), ad (-28.4, 11.1) and (-27.1, 11.7).
    """
    names = {name}
    for node in g.nodes:
        if node.inputs[0] not in names:
            continue
        if node.op in ("Reshape", "Transpose", "Pad"):
            names.update(node.outputs)
        elif node.op in ("Conv2d", "DepthwiseConv2d", "FullyConnected"):
            w, b = (np.asarray(g.data(i), np.float64) for i in node.inputs[1:3])
            rows = w.reshape(len(w), -1)
            if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(b))):
                return None
            size = np.abs(rows).max(axis=1)
            live = size > 1e-6 * size.max()
            rows, b, total = rows[live], b[live], rows[live].sum(axis=1)
            variance = np.median(0.7 * total**2 + 0.3 * np.sum(rows**2, axis=1)) if live.any() else 0.0
            square = math.fsum(total * total)
            if not (variance > 0 and square > 0):
                return None
            mean, deviation = -math.fsum(b * total) / square, float(1 / np.sqrt(variance))
            # Weights of 1e-45 would want inputs that no float32 holds: that says nothing of the inputs.
            return (mean, deviation) if max(abs(mean), deviation) < LARGEST_MADE_UP else None
        else:
            return None
    return None


def doubts(g: Graph, samples: Sequence[Mapping[str, np.ndarray]], apart: Collection[str] = ()) -> list[str]:
    """Why calibration with these samples cannot be right, in lines for a person. apart: inputs not in the data."""
    found = []
    if len(samples) == 1:
        found.append("one calibration sample: ranges cover nothing else; give a hundred that differ")
    for name in g.inputs:
        if name in apart or g.value(name).dtype != "float32":
            continue
        seen = [np.asarray(s[name], np.float32) for s in samples]
        low, high = min(float(x.min()) for x in seen), max(float(x.max()) for x in seen)
        if not (math.isfinite(low) and math.isfinite(high)):
            continue  # refused where the network is run
        if low == high == 0:
            outputs = [o for o in g.outputs if g.value(o).shape == g.value(name).shape]
            state = f", or --state {name}={outputs[0]}" if len(outputs) == 1 and len(g.inputs) > 1 else ""
            found.append(f"input '{name}' is zero in all calibration samples; give samples of real inputs{state}")
        elif len(seen) > 1 and all(np.array_equal(x, seen[0]) for x in seen[1:]):
            found.append(f"input '{name}': all {len(seen)} calibration samples are the same; give samples that differ")
        elif (unlike := _unlike_the_model(g, name, seen, low, high)) is not None:
            found.append(f"input '{name}': calibration samples are {unlike}")
    return found


def _unlike_the_model(g: Graph, name: str, seen: Sequence[np.ndarray], low: float, high: float) -> str | None:
    """A warning if samples from low to high are unlike those that the network was trained on, else None."""
    quant = g.value(name).quant
    if quant is not None:
        first, last = (float(v) for v in quant.levels()[[0, -1]])
        wide = max(-first, last)
        if max(-low, high) > BEYOND * wide or max(-low, high) < wide / BEYOND:
            return (
                f"from {low:.4g} to {high:.4g}; the model takes {first:.4g} to {last:.4g}: scale them as it was trained"
            )
        return None
    of_weights = expected_input(g, name)
    if of_weights is None:
        return None
    values = np.concatenate([x.reshape(-1) for x in seen[:MADE_UP_SAMPLES]]).astype(np.float64)
    size, expected = (
        max(abs(float(mean)), float(deviation)) for mean, deviation in ((values.mean(), values.std()), of_weights)
    )
    pixels = low >= 0 and 100 < high <= 255 and bool(np.all(values == np.rint(values)))
    if pixels and size > PIXELS * expected:
        return (
            f"whole numbers from {low:.0f} to {high:.0f}; the first layer's weights expect numbers around "
            f"{expected:.2g}. Scale them as in training, x / 255 perhaps (of pictures --pixel-scale 1/255)"
        )
    if size > BEYOND * expected or size < expected / BEYOND:
        return (
            f"from {low:.4g} to {high:.4g}; the first layer's weights expect numbers around {expected:.2g}: "
            "scale them as in training"
        )
    return None


def table_rows(g: Graph, name: str) -> int:
    """Rows of the smallest table that an input of row numbers looks things up in."""
    names, rows = {name}, []
    for node in g.nodes:
        if node.inputs[0] in names:
            if node.op == "Reshape":
                names.update(node.outputs)
            elif node.op == "Embedding":
                rows.append(g.value(node.inputs[1]).shape[0])
    return min(rows, default=1)

"""Labelled recordings, pictures and rows of a table as arrays: what `mica train` learns from.

    FOLDER/LABEL/0001.wav          sound (.wav, .flac, .ogg), as `mica record` and the page in the browser write it
    FOLDER/LABEL/0001.npz          motion: x [1, rows, axes] and rate; or .csv, with a row for each moment
    FOLDER/LABEL/0001.png          pictures
    FOLDER/LABEL/ANNA/0001.wav     the same by speaker or day; names such as anna_01.wav say it, too
    TABLE.csv                      a table with a column of labels
    FOLDER.zip                     any of these folders

Anything odd that is no reason to stop becomes a note: one line, with a remedy.
"""

import hashlib
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from mica.data import calibration, pictures, sounds, tables
from mica.errors import MicaError, reading
from mica.listen.detection import BACKGROUND
from mica.printable import some

FEW = 10  # recordings of a label, below which a line says so
UNEQUAL = 4  # times as many of one label as of another
SILENT = 64  # the largest int16 sample of a recording that nobody spoke in
LONGEST = 2.0  # seconds of sound that a network takes at once
HIGHEST = 16000  # samples a second of sound
MOST_STEPS = 256  # rows of motion that a network takes at once
SMALL, SIDE = 96, 48  # pixels: pictures with a longer side become SIDE x SIDE
MOST_UNPACKED = 1 << 31  # bytes of a .zip
SAID = "say-"  # how folders of training/say.py begin
RATE = 100.0  # rows a second of motion that does not say it
_MOTION = (".npz", ".npy", *tables.ENDINGS)
_NUMBER = re.compile(r"[-_. ]*\(?\d+\)?$")
_EXPECTED = "expected a folder with a folder for each label, and in these sound files, pictures, .npz or .csv files"
_TIME = {"ms": 1e-3, "t": 1.0, "time": 1.0, "seconds": 1.0, "timestamp": 1.0}

T = TypeVar("T")


@dataclass(frozen=True)
class Examples:
    """inputs float32: sound [n, samples] from -1 to 1, motion [n, steps, axes] as it was recorded, pictures [n, height,
    width, channels] of bytes, tables [n, columns]. labels, groups int64 [n]; those of one group belong on one side of a
    split. names: of the labels, by number. paths: file and place of each. rate: in Hz, of sound and motion, else 0."""

    kind: str
    inputs: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...]
    groups: np.ndarray
    paths: tuple[str, ...]
    rate: float
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, rows: np.ndarray) -> "Examples":
        """Return the examples of these numbers, with the names of all labels."""
        paths = tuple(self.paths[k] for k in rows)
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], groups=self.groups[rows], paths=paths)

    @property
    def background(self) -> np.ndarray:
        """Return for each label whether it stands for everything else, bool [labels]."""
        return np.array([name.strip("_").lower() in BACKGROUND for name in self.names])


@dataclass(frozen=True)
class _Piece:
    """x: one example; group: what it must not be parted from, by name; path: for people."""

    x: np.ndarray
    label: str
    group: str
    path: str


@dataclass(frozen=True)
class _File:
    path: Path
    label: str
    group: str
    name: str  # below the folder


def read(path: str | Path, kind: str | None = None) -> Examples:
    """Return the examples of a folder, a .zip of one, or a table. kind: only files of it; None: of those that are most.
    Raises MicaError."""
    path = Path(path)
    if not path.exists():
        raise MicaError(f"{path}: no such folder", todo=_EXPECTED)
    if kind not in (None, *_KINDS, "table"):
        raise MicaError(f"--kind {kind}", todo=f"expected {', '.join(_KINDS)} or table")
    if path.suffix.lower() == ".zip":
        with tempfile.TemporaryDirectory(prefix="mica-") as folder:
            _unpack(path, Path(folder))
            return _checked(path, _folder(path, Path(folder), kind))
    if path.is_file():
        if not tables.is_table(path) or kind not in (None, "table"):
            raise MicaError(f"{path}: is a file", todo=f"{_EXPECTED}; or a .csv with a column of labels")
        return _checked(path, _table(path))
    return _checked(path, _folder(path, path, kind))


def _unpack(path: Path, folder: Path) -> None:
    """Raises MicaError where it is no archive, or too large."""
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            if (size := sum(info.file_size for info in archive.infolist())) > MOST_UNPACKED:
                raise MicaError(f"{path}: unpacks to {size:,} bytes", todo=f"expected at most {MOST_UNPACKED:,}")
            archive.extractall(folder)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError) as e:
        raise MicaError(f"{path}: cannot be unpacked: {e}", todo="make the .zip again") from None


def _folder(shown: Path, folder: Path, kind: str | None) -> Examples:
    """shown: its name for people."""
    labels, beside = _inside(folder)
    while len(labels) == 1 and not beside and _inside(labels[0])[0] and not _inside(labels[0])[1]:
        folder = labels[0]  # a .zip holds the folder itself
        labels, beside = _inside(folder)
    if not labels:
        found = [p for p in beside if tables.is_table(p)]
        if len(found) == 1 and kind in (None, "table"):
            return _table(found[0])
        raise MicaError(f"{shown}: holds no folders", todo=_EXPECTED)
    every = [(label.name, p) for label in labels for p in sorted(label.rglob("*")) if p.is_file() and _seen(p, label)]
    counts = Counter(k for _, p in every for k, fits in _KINDS.items() if fits(p))
    if not counts or (kind is not None and kind not in counts):
        raise MicaError(f"{shown}: its folders hold no {kind or 'recordings, pictures or tables'}", todo=_EXPECTED)
    kind = kind or counts.most_common(1)[0][0]
    notes = _left_out(shown, [*beside, *(p for _, p in every if not _KINDS[kind](p))], kind)
    chosen = [(label, p) for label, p in every if _KINDS[kind](p)]
    for label in labels:
        if not label.name.isprintable():
            raise MicaError(f"{shown}: a folder named {label.name!a}", todo="expected a label that can be shown")
        if not any(name == label.name for name, _ in chosen):
            notes.append(f"{label.name}: holds no {kind}: left out; record some, or delete the folder")
    files = _grouped(folder, chosen, notes)
    pieces, rate = {"sound": _sounds, "motion": _motion, "picture": _pictures}[kind](files, notes)
    return _joined(shown, kind, pieces, rate, notes)


def _inside(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return a folder's folders and files, but for hidden ones. Raises MicaError."""
    with reading(folder):
        found = sorted(p for p in folder.iterdir() if not p.name.startswith((".", "__MACOSX")))
    return [p for p in found if p.is_dir()], [p for p in found if not p.is_dir()]


def _seen(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)


_KINDS: dict[str, Callable[[Path], bool]] = {
    "sound": sounds.is_sound,
    "motion": lambda path: path.suffix.lower() in _MOTION,
    "picture": pictures.is_picture,
}


def _left_out(shown: Path, paths: Sequence[Path], kind: str) -> list[str]:
    if not paths:
        return []
    return [f"{shown}: left out: {some([p.name for p in paths])}, no {kind} of a label; move other files elsewhere"]


def _grouped(folder: Path, chosen: Sequence[tuple[str, Path]], notes: list[str]) -> list[_File]:
    """Say which files are of one speaker or day: by folder, by name, else each for itself."""
    parts = [path.relative_to(folder / label).parts for label, path in chosen]
    names = [p[0] if len(p) > 1 else _NUMBER.sub("", Path(p[-1]).stem.split("_nohash_")[0]) for p in parts]
    made = [name.startswith(SAID) for name in names]
    of_label: dict[str, set[str]] = {label: set() for label, _ in chosen}
    for (label, _), name, by_program in zip(chosen, names, made, strict=True):
        of_label[label] |= set() if by_program else {name}
    people = sorted(set().union(*of_label.values()) - {""})
    of_people = len(people) >= 4 and all(len(found - {""}) >= 2 for found in of_label.values())
    if of_people:
        notes.append(f"{len(people)} speakers or days, by folder or name: {some(people)}")
    if any(made):
        notes.append(f"{sum(made)} of {len(made)} clips are a program's voices; add clips of people who will speak")
    files = []
    for (label, path), name in zip(chosen, names, strict=True):
        below = path.relative_to(folder).as_posix()
        files.append(_File(path, label, name if name.startswith(SAID) or (of_people and name) else below, below))
    return files


def _each(files: Sequence[_File], read: Callable[[Path], T], notes: list[str]) -> list[tuple[_File, T]]:
    """Return what `read` makes of each file, without those that it refuses. Raises MicaError if it refuses all."""
    found, refused = [], []
    for file in files:
        try:
            with reading(file.path):
                found.append((file, read(file.path)))
        except MicaError as e:
            refused.append(e)
    if refused and not found:
        raise refused[0]
    notes += [f"left out: {error}" for error in refused[:3]]
    if len(refused) > 3:
        notes.append(f"left out: {len(refused) - 3} more files that cannot be read")
    return found


def frames(rate: int) -> tuple[int, int]:
    """Return the samples of a spectrum, and from one to the next."""
    frame = max(128, round(0.03 * rate))
    return frame, round(frame * 2 / 3)


def _sounds(files: Sequence[_File], notes: list[str]) -> tuple[list[_Piece], float]:
    clips = _each(files, sounds.read_any, notes)
    rates = Counter(rate for _, (_, rate) in clips)
    rate = min(max(rates, key=lambda r: (rates[r], r)), HIGHEST)
    if (lower := sum(n for r, n in rates.items() if r < rate)) > 0:
        notes.append(
            f"{lower} of {len(clips)} clips have fewer than {rate:,} samples a second: resampled, but they hold no "
            "high tones; record all at one rate"
        )
    lengths = [len(x) / r for file, (x, r) in clips if file.label.strip("_").lower() not in BACKGROUND]
    frame, hop = frames(rate)
    n = round(rate * min(max(1.0, float(np.median(lengths or [1.0]))), LONGEST))
    n = max(0, n - frame) // hop * hop + frame  # as much as a packed model takes
    clipped, pieces = 0, []
    for file, (x, found) in clips:
        clipped += bool(sounds.clipped(x))
        cut = sounds.cut(x if found == rate else sounds.read(file.path, rate), n)
        pieces += _pieces(file, [piece.astype(np.float32) / 32768 for piece in cut], n / rate)
    if clipped:
        notes.append(f"{clipped} of {len(clips)} clips are clipped; record with less gain")
    return _loud(pieces, notes), float(rate)


def _pieces(file: _File, cut: Sequence[np.ndarray], step: float) -> list[_Piece]:
    """step: seconds from one to the next."""
    at = [f" at {k * step:.1f} s" if len(cut) > 1 else "" for k in range(len(cut))]
    return [_Piece(x, file.label, file.group, file.name + place) for x, place in zip(cut, at, strict=True)]


def _loud(pieces: list[_Piece], notes: list[str]) -> list[_Piece]:
    """Leave silence out where a word should be. Raises MicaError if nothing is left."""

    def silent(p: _Piece) -> bool:
        return p.label.strip("_").lower() not in BACKGROUND and float(np.abs(p.x).max()) * 32768 < SILENT

    kept = [p for p in pieces if not silent(p)]
    if gone := Counter(p.label for p in pieces if silent(p)):
        of = ", ".join(f"{n} of {label}" for label, n in sorted(gone.items()))
        line = f"silent recordings: {of}"
        if not kept:
            raise MicaError(line, todo="is the microphone connected?")
        notes.append(f"{line}: left out; is the microphone connected?")
    return kept


def _motion(files: Sequence[_File], notes: list[str]) -> tuple[list[_Piece], float]:
    clips = [(file, x, rate) for file, found in _each(files, _rows, notes) for x, rate in found]
    axes = Counter(x.shape[1] for _, x, _ in clips).most_common(1)[0][0]
    if other := [file.name for file, x, _ in clips if x.shape[1] != axes]:
        notes.append(f"left out: {some(other)} with other axes than {axes}; record all with one sensor")
    rates = Counter(rate for _, _, rate in clips if rate)
    rate = rates.most_common(1)[0][0] if rates else RATE
    if not rates:
        notes.append(f"no recording says its rate: {rate:g} rows a second are assumed; add a column of time in seconds")
    if odd := sum(n for r, n in rates.items() if abs(r - rate) > 0.02 * rate):
        notes.append(
            f"{odd} of {len(clips)} recordings have another rate than {rate:g} Hz: resampled; record at one rate"
        )
    clips = [(file, _resampled(x, r or rate, rate), r) for file, x, r in clips if x.shape[1] == axes]
    n = round(rate * min(1.0, float(np.median([len(x) for _, x, _ in clips])) / rate))
    n = min(max(n, 8), MOST_STEPS)
    pieces = []
    for file, x, _ in clips:
        x = np.pad(x, ((0, max(0, n - len(x))), (0, 0)), mode="edge")
        starts = range(0, len(x) - n + 1, max(1, n // 2))
        pieces += _pieces(file, [x[k : k + n] for k in starts], max(1, n // 2) / rate)
    kept = [p for p in pieces if (p.x != p.x[0]).any()]
    if len(kept) < len(pieces):
        notes.append(
            f"left out: {len(pieces) - len(kept)} windows whose rows are all the same; is the sensor connected?"
        )
    return kept, float(rate)


def _rows(path: Path) -> list[tuple[np.ndarray, float]]:
    """Return recordings [rows, axes], each with its rows a second, 0 if it does not say them. Raises MicaError."""
    if tables.is_table(path):
        inputs = tables.Inputs(missing=True, labelled=False)
        x, rate = tables.read(path, inputs)["x"], 0.0
        for k, name in reversed(list(enumerate(inputs.columns))):
            if name.lower() in tables.COUNTERS:
                step = float(np.median(np.diff(x[:, k]))) if len(x) > 1 else 0.0
                if step > 0 and name.lower() in _TIME:
                    rate = round(1 / (step * _TIME[name.lower()]), 3)
                    rate = rate * 1000 if rate < 1 else rate  # a column of milliseconds by another name
                x = np.delete(x, k, axis=1)
        found = [x]
    else:
        arrays = calibration.read_arrays(path)
        x = calibration.decode(arrays, str(path))
        if x.ndim not in (1, 2, 3):
            raise MicaError(f"{path}: x is {list(x.shape)}", todo="expected [1, rows, axes]")
        found = list(x if x.ndim == 3 else x.reshape(1, len(x), -1))
        rate = float(np.asarray(arrays["rate"]).reshape(-1)[0]) if "rate" in arrays else 0.0
    if not all(np.isfinite(x).all() for x in found) or not np.isfinite(rate):
        raise MicaError(f"{path}: holds NaN or infinity", todo="record it again")
    if min((x.size for x in found), default=0) == 0:
        raise MicaError(f"{path}: holds no rows", todo="record it again")
    return [(x, rate) for x in found]


def _resampled(x: np.ndarray, rate: float, to: float) -> np.ndarray:
    if abs(rate - to) <= 0.02 * to:
        return x
    at = np.arange(max(1, int(len(x) * to / rate))) * (rate / to)
    columns = [np.interp(at, np.arange(len(x)), column) for column in x.T]
    return np.stack(columns, axis=1).astype(np.float32)


def _pictures(files: Sequence[_File], notes: list[str]) -> tuple[list[_Piece], float]:
    sizes = Counter(size for file in files if (size := pictures.size(file.path)))
    w, h = max(sizes, key=lambda size: (sizes[size], size), default=(SIDE, SIDE))
    if len(sizes) > 1:
        others = sum(sizes.values()) - sizes[w, h]
        notes.append(f"{others} of {len(files)} pictures are not {w} x {h}: resized; take all with one camera")
    if max(w, h) > SMALL:
        notes.append(f"pictures of {w} x {h} become {SIDE} x {SIDE}")
        w = h = SIDE
    found = _each(files, lambda path: pictures.resized(path, "rgb", h, w), notes)
    grey = all((x == x[..., :1]).all() for _, x in found)
    if grey:
        found = [(file, x[..., :1]) for file, x in found]
    return [_Piece(x.astype(np.float32), file.label, file.group, file.name) for file, x in found], 0.0


def _table(path: Path) -> Examples:
    """Return the rows of a table. Raises MicaError."""
    arrays = tables.read(path, tables.Inputs(missing=True))
    if "y" not in arrays:
        raise MicaError(f"{path}: has no column of labels", todo="name the column with the labels: label")
    if "metric" in arrays:
        raise MicaError(f"{path}: its labels are numbers to predict", todo="expected names or numbers of classes")
    x, y, notes = arrays["x"], arrays["y"], []
    whole = np.isfinite(x).all(axis=1)
    if not whole.all():
        gone = int((~whole).sum())
        if not whole.any():
            raise MicaError(f"{path}: each of its {gone} rows misses a value", todo="fill them in")
        notes.append(f"{gone} of {len(x)} rows miss a value: left out; fill them in")
    names, labels = np.unique(y, return_inverse=True)
    groups = np.unique(x, axis=0, return_inverse=True)[1].reshape(-1)
    rows = [f"row {k + 1}" for k in range(len(x)) if whole[k]]
    kept = (x[whole].astype(np.float32), labels.reshape(-1)[whole].astype(np.int64))
    return Examples(
        "table", *kept, tuple(map(str, names)), groups[whole].astype(np.int64), tuple(rows), 0.0, tuple(notes)
    )


def _joined(shown: Path, kind: str, pieces: Sequence[_Piece], rate: float, notes: list[str]) -> Examples:
    """Return the pieces as arrays, without those that are there twice. Raises MicaError if nothing is left."""
    first: dict[bytes, _Piece] = {}
    for p in pieces:
        same = first.setdefault(hashlib.sha256(p.x.tobytes()).digest(), p)
        if same.label != p.label:
            notes.append(f"{p.path} is {same.path}, too: left out; delete one of them")
    if (twice := len(pieces) - len(first)) > 0:
        notes.append(f"{twice} of {len(pieces)} examples are copies of others: left out; delete them")
    kept = list(first.values())
    if not kept:
        raise MicaError(f"{shown}: holds no examples", todo=_EXPECTED)
    names = sorted({p.label for p in kept})
    groups = {name: k for k, name in enumerate(dict.fromkeys(p.group for p in kept))}
    return Examples(
        kind,
        np.stack([p.x for p in kept], dtype=np.float32),
        np.array([names.index(p.label) for p in kept], np.int64),
        tuple(names),
        np.array([groups[p.group] for p in kept], np.int64),
        tuple(p.path for p in kept),
        rate,
        tuple(notes),
    )


def _checked(shown: Path, examples: Examples) -> Examples:
    """Add what is odd about the counts. Raises MicaError where there is nothing to tell apart, or a label is in one
    file."""
    if len(examples.names) < 2:
        todo = "expected two or more; a word alone needs a label 'other' with speech that is not the word"
        raise MicaError(f"{shown}: has the one label '{examples.names[0]}'", todo=todo)
    counts = {name: len(np.unique(examples.groups[examples.labels == k])) for k, name in enumerate(examples.names)}
    if alone := [name for name, n in counts.items() if n < 2]:
        what = "row" if examples.kind == "table" else "recording"
        raise MicaError(
            f"{shown}: label '{alone[0]}' has a single {what}",
            todo="expected 20 or more: some to learn from and others to test with",
        )
    notes = list(examples.notes)
    for name, n in counts.items():
        if n < FEW:
            notes.append(f"label '{name}' has {n} examples: too few to be sure of anything; record 20 or more")
    most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
    if counts[most] >= UNEQUAL * counts[least]:
        notes.append(
            f"{counts[most]} of '{most}' and {counts[least]} of '{least}': training balances them; record "
            f"more of '{least}'"
        )
    return replace(examples, notes=tuple(notes))

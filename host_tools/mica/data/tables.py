"""Tables of numbers, .csv and .tsv, as spreadsheets, loggers and pandas write them.

Nothing is guessed from statistics; these rules hold, and `note` prints what they gave:

    between columns   of the first row: a tab where there is one, else a semicolon, else a comma;
                      `sep=X` above it names another
    decimals          a comma where a cell is such a number and no cell has a decimal point;
                      never where commas stand between columns
    header            a first row without a number, or one that counts the columns: 0, 1, 2, ...
    missing           an empty cell, NA, NaN, N/A, null, None, ?: NaN
    order             that of the table with which the model was packed, if both name their columns
    left out          dates and times, a column without a name, words; of more columns than the model takes those named
                      id, index, time ...
    labels            the column named label, class, target or y, else the only one of words: array `y`
    texts             the column named text, where the model classifies texts
    windows           rows, one behind the other, where the model takes several at once
"""

import codecs
import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mica.errors import MicaError
from mica.format.names import clean
from mica.notes import note

ENDINGS = (".csv", ".tsv")
MOST_BYTES = 256 << 20
MOST_NAMES = 1000  # bytes of all columns' names
TEXT = "text"
LABELS = ("label", "labels", "class", "target", "y")
COUNTERS = (
    *("id", "index", "no", "nr", "row", "unnamed: 0"),
    *("time", "timestamp", "date", "datetime", "t", "ms", "seconds"),
)
_MISSING = ("", "na", "nan", "n/a", "null", "none", "?")
_WORDS = {"true": 1.0, "false": 0.0}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I)
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)(e[+-]?\d+)?", re.I)
_LIKE = re.compile(r"[-+.,]?\d[-+\d.,e]*", re.I)  # meant as a number
_CLOCK = r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[ap]m)?"
_TIME = re.compile(
    rf"(\d{{1,4}}[-./]\d{{1,2}}[-./]\d{{1,4}}([T ]+{_CLOCK})?|{_CLOCK})( ?(Z|UTC|[+-]\d\d:?\d\d))?", re.I
)
# A mark at the beginning says what the encoding is; that of UTF-32 begins as that of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def is_table(path: str | Path) -> bool:
    """Return True if the name has a table's ending."""
    return Path(path).suffix.lower() in ENDINGS


def text_of(path: Path, most: int, expected: str) -> str:
    """A text file in UTF-8, or in UTF-16 or UTF-32 with its mark. Raises MicaError."""
    if not path.is_file():
        raise MicaError(f"{path}: no such file")
    if path.stat().st_size > most:
        raise MicaError(f"{path}: has {path.stat().st_size:,} bytes", todo=expected)
    data = path.read_bytes()
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as e:
        raise MicaError(f"{path}: is not in UTF-8 (byte {e.start})", todo="save it with that encoding") from None
    if "\0" in text:
        raise MicaError(f"{path}: is not in UTF-8 (it holds zeros)", todo="save it with that encoding")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class Inputs:
    """Inputs of the model that a table is read for. shapes: with their batch of 1, empty if no model is known.
    missing: True if the model has learnt missing values. texts: makes inputs by name of the texts that the model
    classifies.
    columns: names in the order of the input; if there are none, read() adds those of a table that has names.
    labelled: False where no column holds labels: y is an axis then."""

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    missing: bool = False
    texts: Callable[[Sequence[str]], dict[str, np.ndarray]] | None = None
    columns: list[str] = field(default_factory=list)
    labelled: bool = True


@dataclass(frozen=True)
class _Column:
    """name: of the header, else its number; kind: numbers, times, words, or nothing; values: of the cells, NaN of a
    missing one, None of what is no number."""

    name: str
    kind: str
    cells: list[str]
    values: list[float | None]


def read(path: Path, inputs: Inputs) -> dict[str, np.ndarray]:
    """`x` float32 [n, columns], or in the form of the only input's windows, and `y` where there are labels; `metric`
    mse of numbers with a fraction. Of several inputs, an array for each column that is named as one. Raises MicaError.
    """
    text = text_of(path, MOST_BYTES, f"expected at most {MOST_BYTES:,}; give fewer rows")
    rows, delimiter = _rows(path, text)
    names, rows, named = _header(path, rows)
    commas = _decimal_commas(rows, delimiter)
    columns = [_column(name, [row[k] for _, row in rows], commas) for k, name in enumerate(names)]
    places = [line for line, _ in rows]
    if inputs.texts is not None and (found := [c for c in columns if c.name.lower() == TEXT]):
        return _of_texts(path, columns, places, inputs.texts(found[0].cells))
    if len(inputs.shapes) > 1:
        return _by_name(path, columns, places, inputs)
    shape = next(iter(inputs.shapes.values()), ())
    chosen, label, left = _choose(path, columns, shape, inputs.columns if named else [], inputs.labelled)
    if named and not inputs.columns:
        inputs.columns.extend(_order(chosen))
    x = np.stack([_numbers(path, c, places) for c in chosen], axis=1)
    gone = _missing(path, x, chosen, places, inputs)
    y = None if label is None else _labels(path, label, places)
    parts = [f"{len(rows)} rows of {_listed(chosen)}"]
    parts += [f"{_between(delimiter)} between columns"] if delimiter != "," else []
    parts += ["decimal commas"] if commas else []
    parts += [f"left out: {_listed(left)}"] if left else []
    parts += [f"labels: {label.name}"] if label else []
    parts += gone
    if inputs.columns and not named:
        parts += ["they have no names: taken in the order of the table that the model was packed with"]
    elif [c for c in columns if c in chosen] != chosen:
        parts += ["put in the order of the table that the model was packed with"]
    x, y, done = _windows(path, x, y, shape)
    note(path, "; ".join([*parts, *done]))
    arrays = {"x": x}
    if y is not None:
        arrays["y"] = y
        if y.dtype.kind == "f":
            arrays["metric"] = np.array("mse")
    return arrays


def _of_texts(
    path: Path, columns: list[_Column], places: list[int], arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Inputs by name, a single one as `x`, and `y` where there are labels."""
    label = next((c for c in columns if c.name.lower() in LABELS), None)
    note(path, f"{len(places)} texts" + (f"; labels: {label.name}" if label else ""))
    arrays = {"x": next(iter(arrays.values()))} if len(arrays) == 1 else arrays
    return arrays if label is None else {**arrays, "y": _labels(path, label, places)}


def _by_name(path: Path, columns: list[_Column], places: list[int], inputs: Inputs) -> dict[str, np.ndarray]:
    """A column for each input of one number: its array [rows, 1]. Raises MicaError."""
    named = {c.name: c for c in columns}
    if absent := [name for name in inputs.shapes if name not in named]:
        raise MicaError(
            f"{path}: has no column '{absent[0]}'", todo=f"the model has the inputs {', '.join(inputs.shapes)}"
        )
    chosen = [named[name] for name in inputs.shapes]
    x = np.stack([_numbers(path, c, places) for c in chosen], axis=1)
    note(path, "; ".join([f"{len(x)} rows of {', '.join(inputs.shapes)}", *_missing(path, x, chosen, places, inputs)]))
    return {c.name: x[:, k, None] for k, c in enumerate(chosen)}


def _missing(path: Path, x: np.ndarray, chosen: list[_Column], places: list[int], inputs: Inputs) -> list[str]:
    """A part of the note about missing values, or none. Raises MicaError where the model has not learnt them."""
    if not (bad := np.argwhere(np.isnan(x))).size:
        return []
    row, column = (int(v) for v in bad[0])
    found = f"row {places[row]}, column '{chosen[column].name}'"
    if not inputs.missing:
        raise MicaError(
            f"{path}, {found}: a value is missing ({len(bad)} in the table), and the model has not learnt "
            "missing values",
            todo="leave the row out, or fill it in as in training",
        )
    return [f"{len(bad)} missing values, the first in {found}"]


def _rows(path: Path, text: str) -> tuple[list[tuple[int, list[str]]], str]:
    """(line in the file, cells) of each row that is neither empty nor a remark, and what stands between columns."""
    lines = text.split("\n")
    skipped = next((k for k, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    named = re.fullmatch(r"sep=(.)", lines[skipped].strip("\ufeff")) if skipped < len(lines) else None
    skipped += named is not None
    first = re.sub(r'"[^"]*"', "", lines[skipped]) if skipped < len(lines) else ""
    delimiter = named[1] if named else next((d for d in "\t;," if d in first), ",")
    reader = csv.reader(lines[skipped:], delimiter=delimiter, skipinitialspace=delimiter != "\t")
    try:
        rows = [(skipped + reader.line_num, [c.strip() for c in row]) for row in reader if any(c.strip() for c in row)]
    except csv.Error as e:
        raise MicaError(f"{path}, row {skipped + reader.line_num}: {e}", todo="expected a table") from None
    if not rows:
        raise MicaError(f"{path}: holds no rows", todo="expected a table with a row for each sample")
    if len(rows[0][1]) > 1 and all(len(row) == len(rows[0][1]) and not row[-1] for _, row in rows):
        rows = [(line, row[:-1]) for line, row in rows]  # a delimiter at the end of each
    for line, row in rows:
        if len(row) != len(rows[0][1]):
            raise MicaError(
                f"{path}, row {line}: has {len(row)} columns",
                todo=f"expected {len(rows[0][1])}, as in row {rows[0][0]}, with {_between(delimiter)} between them",
            )
    return rows, delimiter


def _between(delimiter: str) -> str:
    return {"\t": "tabs", ";": "semicolons", ",": "commas"}.get(delimiter, f"'{delimiter}'")


def _header(path: Path, rows: list[tuple[int, list[str]]]) -> tuple[list[str], list[tuple[int, list[str]]], bool]:
    """Return the columns' names (numbers where the first row has none), the rows of data,
    and whether the names are words."""
    first = rows[0][1]
    filled = [c for c in first if c.lower() not in _MISSING]
    words = not any(_NUMBER.fullmatch(c) or _COMMA.fullmatch(c) or _TIME.fullmatch(c) for c in filled)
    counted = [c for c in first if c] == [str(k) for k in range(len(filled))]
    if not ((words and filled) or (counted and (len(filled) > 2 or (not first[0] and len(filled) > 0)))):
        return [str(k + 1) for k in range(len(first))], rows, False
    if len(rows) == 1:
        raise MicaError(f"{path}: has a header and no rows", todo="expected a row for each sample")
    if twice := [name for name, n in Counter(filled).items() if n > 1]:
        raise MicaError(f"{path}: two columns are named '{twice[0]}'", todo="expected a name for each")
    return first, rows[1:], words


def _decimal_commas(rows: list[tuple[int, list[str]]], delimiter: str) -> bool:
    """True if numbers have decimal commas."""
    if delimiter == ",":
        return False
    cells = [c for _, row in rows for c in row]
    return any(_COMMA.fullmatch(c) for c in cells) and not any("." in c and _NUMBER.fullmatch(c) for c in cells)


def _number(cell: str, commas: bool) -> float | None:
    """NaN of a missing one, None of what is no number."""
    if cell.isdecimal() and len(cell) < 16:  # most pixels and labels
        return float(cell)
    if cell.lower() in _MISSING:
        return math.nan
    if cell.lower() in _WORDS:
        return _WORDS[cell.lower()]
    if commas and "." not in cell:
        cell = cell.replace(",", ".", 1)
    value = float(cell) if _NUMBER.fullmatch(cell) else None
    return value if value is None or abs(value) <= np.finfo(np.float32).max else None


def _column(name: str, cells: list[str], commas: bool) -> _Column:
    values = [_number(c, commas) for c in cells]
    filled = [(c, v) for c, v in zip(cells, values, strict=True) if v is None or not math.isnan(v)]
    if not filled:
        kind = "nothing"
    elif all(v is None and _TIME.fullmatch(c) for c, v in filled):
        kind = "times"
    elif any(v is not None or _LIKE.fullmatch(c) for c, v in filled):
        kind = "numbers"
    else:
        kind = "words"
    return _Column(name, kind, cells, values)


def _choose(
    path: Path, columns: list[_Column], shape: Sequence[int], order: list[str], labelled: bool
) -> tuple[list[_Column], _Column | None, list[_Column]]:
    """Return the columns that the model takes, that of the labels, and those that are left out. Raises MicaError.

    order: names of the columns that the model takes, empty if they are not known."""
    fits = _counts(shape)
    named = [c for c in columns if c.name.lower() in LABELS]
    words = [c for c in columns if c.kind == "words"]
    label = named[0] if named else words[0] if len(words) == 1 else None
    label = label if labelled else None
    if order and not (len(order) == 1 and re.fullmatch(r"sha256:[0-9a-f]{64}", order[0])):
        by_name = {clean(c.name): c for c in columns}
        if absent := [name for name in order if name not in by_name]:
            raise MicaError(
                f"{path}: has no column '{absent[0]}'", todo=f"the model was packed with the columns {', '.join(order)}"
            )
        kept = [by_name[name] for name in order]
        label = None if label in kept else label
        return kept, label, [c for c in columns if c not in kept and c is not label]
    kept = [c for c in columns if c.name and c.kind in ("numbers", "nothing")]
    if label is not None and not (label in kept and len(kept) in fits):
        kept = [c for c in kept if c is not label]
    else:
        label = None
    for c in [c for c in kept if c.name.lower() in COUNTERS]:
        if fits and len(kept) not in fits:
            kept.remove(c)
    if not kept or (fits and len(kept) not in fits):
        expected = " or ".join(str(n) for n in sorted(fits)) or "some"
        raise MicaError(
            f"{path}: has {len(kept)} columns of numbers ({_listed(kept)})",
            todo=f"the model takes {expected}; leave the others out, and name that of labels label or y",
        )
    if order and _order(kept) != order:
        raise MicaError(
            f"{path}: its columns, or their order, are not those of the table that the model was packed with",
            todo="expected the same ones in the same order",
        )
    return kept, label, [c for c in columns if c not in kept and c is not label]


def _order(columns: list[_Column]) -> list[str]:
    """Return the names as a model's file keeps them: of many columns a single digest,
    since names take flash on a board."""
    names = [clean(c.name) for c in columns]
    text = "\n".join(names)
    return names if len(text) <= MOST_NAMES else ["sha256:" + hashlib.sha256(text.encode()).hexdigest()]


def _counts(shape: Sequence[int]) -> set[int]:
    """Columns that a model of this input can be given: all numbers of a sample, or those of a row of a window."""
    sizes = [d for d in shape[1:] if d != 1]
    if len(sizes) == 1:
        return {sizes[0], 1}
    return {math.prod(sizes), *sizes} if len(sizes) == 2 else {math.prod(sizes)} if shape else set()


def _numbers(path: Path, column: _Column, places: list[int]) -> np.ndarray:
    """float32 [rows]. Raises MicaError."""
    if None in column.values:
        k = column.values.index(None)
        raise MicaError(
            f"{path}, row {places[k]}, column '{column.name}': '{column.cells[k][:40]}' is not a number",
            todo="expected one such as 2.5, of float32's range, with the same decimals as all others",
        )
    return np.array(column.values, np.float32)


def _labels(path: Path, column: _Column, places: list[int]) -> np.ndarray:
    """int64, float32 or text [rows]. Raises MicaError."""
    if bad := [k for k, v in enumerate(column.values) if v is not None and math.isnan(v)]:
        raise MicaError(f"{path}, row {places[bad[0]]}, column '{column.name}': the label is missing")
    if None in column.values:
        return np.array(column.cells)
    y = np.array(column.values, np.float64)
    return y.astype(np.int64) if np.array_equal(y, np.rint(y)) else y.astype(np.float32)


def _listed(columns: list[_Column]) -> str:
    """Names, of many the first and the last."""
    names = [c.name for c in columns]
    return ", ".join(names) if len(names) <= 12 else f"{names[0]}, {names[1]} ... {names[-1]} ({len(names)} columns)"


def _windows(
    path: Path, x: np.ndarray, y: np.ndarray | None, shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """Rows as windows, where the model takes several at once; what was done. Windows across two labels are dropped.
    Raises MicaError."""
    sizes = [d for d in shape[1:] if d != 1]
    columns = x.shape[1]
    if not shape or columns == math.prod(sizes):
        return (x.reshape(-1, *shape[1:]) if shape else x), y, []
    first = len(sizes) == 2 and columns != sizes[1]  # [channels, rows]
    n = sizes[1] if first else sizes[0]
    whole = len(x) // n
    if not whole:
        raise MicaError(f"{path}: has {len(x)} rows", todo=f"the model takes windows of {n}")
    done = [f"{whole} windows of {n} rows"]
    if len(x) % n:
        done.append(f"the last {len(x) % n} rows are left out")
    made = x[: whole * n].reshape(whole, n, columns)
    if first:
        made = made.transpose(0, 2, 1)
    if y is not None:
        of_windows = y[: whole * n].reshape(whole, n)
        same = (of_windows == of_windows[:, :1]).all(axis=1)
        if not same.all():
            done.append(f"{whole - int(same.sum())} windows with several labels are left out")
        made, y = made[same], of_windows[same, 0]
    return np.ascontiguousarray(made).reshape(-1, *shape[1:]), y, done

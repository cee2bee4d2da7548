"""The vocabulary of a language model or a text classifier: the section TOKENS, and text <-> tokens in Python.

`usermod_c/runtime/tokens.c` is the same in C, for boards; SPEC.md says what both do. A piece is bytes, and need not end
where a character ends.
"""

import codecs
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mica.errors import MicaError
from mica.format import schema
from mica.format import words as by_words
from mica.kernels.rules import Broken

METHODS = tuple(schema.TOKEN_METHODS)
NEVER = 0xFFFF  # a cost: of a piece that no merge makes
_HEAD = schema.record_bytes(schema.TOKENS)


@dataclass(frozen=True)
class Tokens:
    """pieces: one a token, b"" if text is never made of it. costs: one a piece, 0 to 65535, () for the method LONGEST.

    listed: the tokens that text is made of, by the order of their pieces. begin, end: tokens.
    token, position, length: places among the model's inputs; output: among its outputs; None where there is none.
    positions: 0 where they have no end.
    With the flag CLASSES a run takes a whole text: begin and end stand around it, padding behind it;
    position is an input of zeros, and length one for the mask. unknown: token of what no piece spells.
    Not in the file, but for `packing.tokens`: framed, begin, end and unknown if texts are classified, and trouble,
    why they cannot be.
    """

    pieces: tuple[bytes, ...]
    method: str = "LONGEST"
    costs: tuple[int, ...] = ()
    flags: int = 0
    listed: tuple[int, ...] = ()
    begin: int | None = None
    end: int | None = None
    token: int = 0
    position: int | None = None
    length: int | None = None
    output: int = 0
    positions: int = 0
    window: int = 0
    padding: int = 0
    unknown: int | None = None
    framed: tuple[int | None, int | None, int | None] = (None, None, None)
    trouble: str = ""

    def has(self, flag: str) -> bool:
        """True if a flag of schema.TOKEN_FLAGS is set."""
        return bool(self.flags & schema.TOKEN_FLAGS[flag])


def listed(tokens: Tokens, hidden: Sequence[int] = ()) -> Tokens:
    """Vocabulary with a list of the pieces that make up text: no empty or hidden ones, of equal ones the last."""
    last = {piece: i for i, piece in enumerate(tokens.pieces) if piece and i not in set(hidden)}
    return replace(tokens, listed=tuple(last[piece] for piece in sorted(last)))


# ---- bytes


def _number(token: int | None) -> int:
    return schema.NO_TOKEN if token is None else token


def head(t: Tokens) -> dict[str, int]:
    """The fields of the record at the beginning of the section."""
    return {
        "count": len(t.pieces),
        "listed": len(t.listed),
        "method": schema.TOKEN_METHODS[t.method],
        "flags": t.flags,
        "begin": _number(t.begin),
        "end": _number(t.end),
        "token": t.token,
        "position": _number(t.position),
        "length": _number(t.length),
        "output": t.output,
        "padding": t.padding,
        "positions": _number(t.unknown) if t.has("CLASSES") else t.positions,
        "window": t.window,
        "piece_bytes": sum(map(len, t.pieces)),
    }


def tables(t: Tokens) -> bytes:
    """Bytes behind the record: offsets, list, costs, pieces."""
    offsets = np.cumsum([0, *map(len, t.pieces)])
    return np.concatenate([offsets, np.array([*t.listed, *t.costs], int)]).astype("<u2").tobytes() + b"".join(t.pieces)


def read(record: dict[str, int], data: bytes) -> Tokens:
    """The vocabulary of a section: its record, and what follows it. Raises Broken."""
    n, m, size = record["count"], record["listed"], record["piece_bytes"]
    if not 1 <= n <= schema.MAX_TOKENS or m > n or size > schema.MAX_PIECE_BYTES:
        raise Broken(f"{n} pieces of {size} bytes, {m} listed")
    if record["method"] >= len(METHODS) or record["flags"] & ~sum(schema.TOKEN_FLAGS.values()):
        raise Broken(f"method {record['method']}, flags {record['flags']:#x}: this version does not know them")
    method = METHODS[record["method"]]
    costs = n if method in ("MERGES", "UNIGRAM") else 0
    words = n + 1 + m + costs
    if len(data) != 2 * words + size:
        raise Broken(f"{len(data)} bytes behind the record; expected {2 * words + size}")
    numbers = np.frombuffer(data, "<u2", words).astype(int)
    offsets, pieces = numbers[: n + 1], data[2 * words :]
    if offsets[0] != 0 or offsets[-1] != size or np.any(np.diff(offsets) < 0):
        raise Broken("offsets of pieces that do not rise from 0 to the end")
    for name in ("begin", "end"):
        if record[name] >= n and record[name] != schema.NO_TOKEN:
            raise Broken(f"token {record[name]} as {name}; there are {n}")
    classes = bool(record["flags"] & schema.TOKEN_FLAGS["CLASSES"])
    if record["padding"] >= n or (classes and n <= record["positions"] != schema.NO_TOKEN):
        raise Broken(f"token {record['padding']} as padding, {record['positions']} as unknown; there are {n}")
    if method == "WORDPIECE" and (not classes or record["positions"] == schema.NO_TOKEN):
        raise Broken("the method WORDPIECE, which is for classes, and for words of which some are unknown")
    found = tuple(pieces[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    order = numbers[n + 1 : n + 1 + m].tolist()
    before = b""
    for token in order:
        if token >= n or found[token] <= before:
            raise Broken("a list of pieces that does not rise")
        before = found[token]

    def maybe(name: str) -> int | None:
        return None if record[name] == schema.NO_TOKEN else record[name]

    return Tokens(
        found,
        method,
        tuple(numbers[n + 1 + m :].tolist()),
        record["flags"],
        tuple(order),
        maybe("begin"),
        maybe("end"),
        record["token"],
        maybe("position"),
        maybe("length"),
        record["output"],
        0 if classes else record["positions"],
        record["window"],
        record["padding"],
        maybe("positions") if classes else None,
    )


def check(t: Tokens, inputs: Sequence[tuple[str, int]], outputs: Sequence[tuple[str, int]]) -> None:
    """Raises Broken where the inputs and the output are not there for it.
    inputs, outputs: (element type, elements) of each."""
    used = [place for place in (t.token, t.position, t.length) if place is not None]
    classes, size = t.has("CLASSES"), 1
    for place in used:
        dtype, elements = inputs[place] if place < len(inputs) else ("no", 0)
        size = elements if classes and place == t.token else size
        kinds = ("int32", "int8") if classes and place != t.token else ("int32",)
        if elements != size or size == 0 or dtype not in kinds:
            raise Broken(f"model input {place}, {dtype} {elements}, for {size} numbers, among {len(inputs)} inputs")
    if len(set(used)) < len(used) or len(used) < len(inputs):
        raise Broken(f"model inputs {used} for token, position and length; the model has {len(inputs)}")
    dtype, scores = outputs[t.output] if t.output < len(outputs) else ("no", 0)
    if dtype not in (("int8", "float32") if classes else ("int8",)) or (not classes and scores != len(t.pieces)):
        raise Broken(f"model output {t.output} for the scores; expected {'some' if classes else len(t.pieces)} int8")
    if (t.window == 0) != (classes or t.length is None) or max(t.window, t.positions) > schema.MAX_BYTES:
        raise Broken(f"{t.positions} positions, a window of {t.window}")


# ---- text -> tokens


class Unspelled(MicaError):
    """Text that no pieces make. byte: where."""

    def __init__(self, text: bytes, byte: int) -> None:
        shown = text[byte : byte + character(text, byte)].decode(errors="replace")
        super().__init__(f"the vocabulary has no piece for {shown!r}, byte {byte} of the text", todo="leave it out")
        self.byte = byte


def character(text: bytes, at: int) -> int:
    """Number of bytes of the character that begins at a byte; 1 if none does."""
    lead = text[at]
    n = 2 if 0xC0 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF8 else 1
    return min(n, len(text) - at)


def encode(t: Tokens, text: str | bytes) -> list[int]:
    """The tokens of a text, without `begin` and `end`. Raises Unspelled if it has no token for what no piece spells."""
    given = text.encode(errors="replace") if isinstance(text, str) else text
    space = 1 if t.has("SPACE") and given and not (t.has("BARE") and given.startswith(b" ")) else 0
    data = b" " * space + given
    ids = {t.pieces[i]: i for i in t.listed}
    if t.has("LOWER") and t.method != "WORDPIECE":
        lead = b" " if t.has("SPACE") and data.startswith(b" ") else b""
        data = lead + by_words.plain(data.decode(errors="replace"), ids).encode()
        given = data[space:]
    longest = max(map(len, ids), default=0)
    try:
        if t.method == "LONGEST":
            return _longest(data, ids, longest, t.unknown)
        if t.method == "UNIGRAM":
            return _unigram(data, ids, longest, t)
        if t.method == "WORDPIECE":
            found = (
                by_words.word_tokens(word, ids, longest)
                for word in by_words.split(data.decode(errors="replace"), t.flags)
            )
            return [i for word in found for i in word or (t.unknown or 0,)]
        return [i for a, b in words(t, data) for i in _merges(data, a, b, ids, t)]
    except Unspelled as e:
        raise Unspelled(given, max(e.byte - space, 0)) from None


def row(t: Tokens, text: str | bytes, size: int) -> tuple[list[int], int]:
    """`size` tokens of a text to classify: with what stands around it, cut at its end, filled up with padding.
    And how many are no padding."""
    ends = [] if t.end is None else [t.end]
    found = (([] if t.begin is None else [t.begin]) + encode(t, text))[: size - len(ends)] + ends
    return found + [t.padding] * (size - len(found)), len(found)


def arrays(t: Tokens, shapes: Mapping[str, Sequence[int]], texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Inputs of a model that classifies texts, int64 [texts, ...], by name.
    shapes: of all inputs, with their batch of 1. Raises Unspelled."""
    names = list(shapes)
    size = math.prod(shapes[names[t.token]])
    rows = [row(t, text, size) for text in texts]
    found = {name: np.zeros((len(texts), size), np.int64) for name in names}
    found[names[t.token]] = np.array([tokens for tokens, _ in rows])
    if t.length is not None:
        found[names[t.length]] = (np.arange(size) < np.array([[n] for _, n in rows])).astype(np.int64)
    return {name: x.reshape(len(texts), *shapes[name][1:]) for name, x in found.items()}


def _longest(data: bytes, ids: dict[bytes, int], longest: int, unknown: int | None) -> list[int]:
    out = []
    at = 0
    while at < len(data):
        for n in range(min(longest, len(data) - at), 0, -1):
            if (found := ids.get(data[at : at + n])) is not None:
                out.append(found)
                at += n
                break
        else:
            if unknown is None:
                raise Unspelled(data, at)
            out.append(unknown)
            at += character(data, at)
    return out


def _unigram(data: bytes, ids: dict[bytes, int], longest: int, t: Tokens) -> list[int]:
    best: list[tuple[int, int, int] | None] = [(0, 0, 0)] + [None] * len(data)  # sum of costs, last token, its begin
    reached = 0
    for at in range(len(data)):
        here = best[at]
        if here is None:
            continue
        reached = at
        one = character(data, at)
        steps = [(n, ids.get(data[at : at + n])) for n in range(1, min(longest, len(data) - at) + 1)]
        if t.unknown is not None and ids.get(data[at : at + one]) is None:
            steps.append((one, t.unknown))
        for n, found in steps:
            there = best[at + n]
            if found is not None and (there is None or here[0] + t.costs[found] < there[0]):
                best[at + n] = (here[0] + t.costs[found], found, at)
    out: list[int] = []
    at = len(data)
    while at > 0:
        last = best[at]
        if last is None:
            raise Unspelled(data, reached)
        if last[1] != t.unknown or out[-1:] != [t.unknown]:  # unknown neighbours are one
            out.append(last[1])
        at = last[2]
    return out[::-1]


def _merges(data: bytes, begin: int, end: int, ids: dict[bytes, int], t: Tokens) -> list[int]:
    found: list[int] = []
    at = begin
    while at < end:
        n = 1 if t.has("BYTES") else min(character(data, at), end - at)
        parts = [data[at : at + n]]
        if parts[0] not in ids:
            parts = [data[k : k + 1] for k in range(at, at + n)]
        missing = [k for k, part in enumerate(parts) if part not in ids]
        if missing and t.unknown is None:
            raise Unspelled(data, at + missing[0])
        found += [t.unknown or 0] if missing else [ids[part] for part in parts]
        at += n
    while True:
        joined = [ids.get(t.pieces[a] + t.pieces[b]) for a, b in itertools.pairwise(found)]
        costs = [NEVER if i is None else t.costs[i] for i in joined]
        least = min(costs, default=NEVER)
        if least == NEVER:
            return found
        k = costs.index(least)
        merged = joined[k]
        assert merged is not None
        found[k : k + 2] = [merged]


def words(t: Tokens, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each word of a text. Words are GPT-2's.

    Without MARKS all characters beyond ASCII are letters.
    """
    if not t.has("WORDS"):
        if data:
            yield 0, len(data)
        return
    end = 0
    for word in by_words.GPT_2[t.flags & by_words.MARKS].findall(data.decode(errors="surrogateescape")):
        begin, end = end, end + len(word.encode(errors="surrogateescape"))
        yield begin, end


# ---- tokens -> text


codecs.register_error("mica", lambda error: ("\ufffd", error.start + 1))  # type: ignore[attr-defined]


def text(data: bytes) -> str:
    """Return bytes as text: each byte that is part of no character becomes U+FFFD. As the board's text.py does it."""
    return data.decode(errors="mica")

"""Vocabularies as others write them, read into file.tokens.Tokens.

* a JSON list of strings: entry i is the piece of token i; text is taken apart by the longest piece, or, with `merges`,
  as BPE does it, pieces in the order of the list
* tokenizer.json (Hugging Face): byte-level BPE, BPE with bytes to fall back on (as of Llama), Unigram (SentencePiece),
  and for models that classify texts WordPiece and WordLevel (word_lists.py)
* vocab.txt, a word a line, and a JSON object of words and their tokens: the same

What such a file asks of text before it is taken apart is refused where boards do not do it, by name.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from mica.errors import MicaError
from mica.file.tokens import NEVER, Tokens, listed
from mica.format import schema
from mica.format.words import odd
from mica.importer import word_lists
from mica.notes import note

_MOST_BYTES = 64 << 20  # of a vocabulary file
_BEGIN = ("<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>", "<|im_start|>")
_END = ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>")
_FRAMED = ("begin", "end", "unknown")
_NAMED = (*_FRAMED, "padding")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")
_ONE_SPACE = schema.TOKEN_FLAGS["SPACE"] | schema.TOKEN_FLAGS["BARE"]  # in front of a text that does not begin with one
_WORDS = schema.TOKEN_FLAGS["WORDS"] | schema.TOKEN_FLAGS["MARKS"]
_UNDERLINE = "\u2581"  # SentencePiece's blank
_TAKES = (
    "a list of strings, a vocab.txt, or a tokenizer.json of BPE (byte-level or as Llama's), Unigram, WordPiece or "
    "WordLevel, is expected"
)


def read(text: str) -> Tokens:
    """Return the vocabulary that `pack --tokens` names. Raises MicaError.

    FILE[,begin=N][,end=N][,padding=N][,unknown=N][,space][,plain][,merges]
    """
    path, *options = text.split(",")
    found = _file(Path(path))
    for option in options:
        name, _, number = option.partition("=")
        if name in _NAMED and number.isdecimal() and int(number) < len(found.pieces):
            token = int(number)
            begin, end, unknown = (
                token if name == end else old for end, old in zip(_FRAMED, found.framed, strict=True)
            )
            changed: dict[str, Any] = {} if name == "unknown" else {name: token}
            found = replace(found, framed=(begin, end, unknown), **changed)
        elif option == "space":
            found = replace(found, flags=found.flags | schema.TOKEN_FLAGS["SPACE"])
        elif option == "plain" and found.method != "WORDPIECE":
            found = replace(found, flags=found.flags | schema.TOKEN_FLAGS["LOWER"])
        elif option == "merges" and found.method == "LONGEST":
            found = replace(found, method="MERGES", costs=tuple(range(len(found.pieces))))
        else:
            raise MicaError(
                f"--tokens {text}: '{option}'",
                todo=f"begin=N, end=N, padding=N and unknown=N with N from 0 to {len(found.pieces) - 1}, "
                "space, plain (not of words), or merges (of a list), are expected",
            )
    return found


def _file(path: Path) -> Tokens:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise MicaError(f"{path}: a vocabulary of more than {_MOST_BYTES >> 20} MB")
        if path.suffix.lower() == ".txt":
            data: Any = path.read_text("utf-8-sig").removesuffix("\n").split("\n")
        else:
            data = json.loads(path.read_bytes(), parse_float=_finite, parse_constant=_finite)
    except OSError as e:
        raise MicaError(f"{path}: the vocabulary cannot be read: {e.strerror}") from None
    except (ValueError, RecursionError):
        raise MicaError(f"{path}: no JSON, no UTF-8, or a number in it is not finite", todo=_TAKES) from None
    try:
        if path.suffix.lower() == ".txt" or (isinstance(data, dict) and "model" not in data):
            words = data if isinstance(data, list) else word_lists.in_order(_ids(data, ()))
            ends = word_lists.place(words, ["[CLS]"]), word_lists.place(words, ["[SEP]"])
            found = _word_list(words, word_lists.rule(words), set(), ends)
        else:
            found = _list(data) if isinstance(data, list) else _tokenizer(data)
    except MicaError as e:
        raise e.at(str(path)) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError):
        raise MicaError(f"{path}: no vocabulary", todo=_TAKES) from None
    if not found.listed:
        raise MicaError(f"{path}: no piece has a text")
    if found.has("LOWER") and (kept := word_lists.kept(found.pieces)):
        note(path, f"{kept!r}: letters beyond Latin and Cyrillic keep their case and their accents")
    if found.has("WORDS") and (other := odd("".join(p.decode(errors="ignore") for p in found.pieces))):
        note(path, f"{other!r}: boards take it for another kind of character, so words with it end elsewhere")
    return found


def _finite(text: str) -> float:
    """Raises ValueError: no number of a vocabulary is beyond all others."""
    if not math.isfinite(found := float(text)):
        raise ValueError
    return found


def _checked(pieces: Sequence[bytes]) -> tuple[bytes, ...]:
    size = sum(map(len, pieces))
    if not 1 <= len(pieces) <= schema.MAX_TOKENS or size > schema.MAX_PIECE_BYTES:
        raise MicaError(
            f"{len(pieces)} pieces of {size} bytes",
            todo=f"a file holds 1 to {schema.MAX_TOKENS} pieces of {schema.MAX_PIECE_BYTES} bytes together",
        )
    return tuple(pieces)


def _bytes(text: str) -> bytes:
    """UTF-8. Half of a surrogate pair, which has no UTF-8, is encoded as if it were a character."""
    return text.encode(errors="surrogatepass")


def _list(data: list[Any]) -> Tokens:
    for i, piece in enumerate(data):
        if not isinstance(piece, str):
            raise MicaError(f"entry {i} is no string", todo=_TAKES)
    return listed(Tokens(_checked([_bytes(piece) for piece in data])))


# ---- tokenizer.json


def _refuse(what: str) -> NoReturn:
    raise MicaError(f"tokenizer.json: {what}, which boards do not do", todo=_TAKES)


def _parts(node: Any, several: str) -> list[dict[str, Any]]:
    """A normalizer or pre-tokenizer, or what its Sequence holds."""
    if node is None:
        return []
    if node["type"] == "Sequence":
        return [part for inner in node[several] for part in _parts(inner, several)]
    return [node]


def _tokenizer(data: Mapping[str, Any]) -> Tokens:
    model = data["model"]
    kind = model.get("type") or ("BPE" if "merges" in model else "")
    special = {t["content"]: int(t["id"]) for t in data.get("added_tokens") or () if t.get("special", True)}
    around, padding, trouble = _around(data, special)
    if kind in ("WordPiece", "WordLevel"):
        parts = _parts(data.get("normalizer"), "normalizers"), _parts(data.get("pre_tokenizer"), "pretokenizers")
        words = word_lists.in_order(_ids(model["vocab"], data.get("added_tokens") or ()))
        hidden = set(special.values()) | word_lists.check(model, words, _refuse)
        found = _word_list(words, word_lists.flags_of(*parts, _refuse), hidden, around, model["unk_token"])
        return replace(found, padding=padding or 0, trouble=trouble)
    flags, byte_level = _before(data)
    if kind == "BPE":
        found, hidden = _bpe(model, data, byte_level)
        unknown = None if model.get("fuse_unk") else special.get(model.get("unk_token") or "")
    elif kind == "Unigram":
        found, hidden = _unigram(model)
        unknown = model.get("unk_id")
    else:
        _refuse(f"a model of the type '{kind}'")
    hidden |= set(special.values())
    begin = next((special[name] for name in _BEGIN if name in special), None)
    end = next((special[name] for name in _END if name in special), None)
    if found.method == "MERGES" and byte_level:
        flags |= schema.TOKEN_FLAGS["BYTES"]
    found = replace(listed(found, sorted(hidden)), flags=flags, begin=begin, end=end)
    return replace(found, padding=padding or 0, framed=(*around, unknown), trouble=trouble)


def _around(data: Mapping[str, Any], special: Mapping[str, int]) -> tuple[word_lists.Ends, int | None, str]:
    """The tokens at the ends of a text to classify, that of padding;
    why there are none, which is no matter for a language model."""
    try:
        padding = word_lists.padding(data.get("padding"), special, _refuse)
        return word_lists.processed(data.get("post_processor"), _refuse), padding, ""
    except MicaError as e:
        return (None, None), None, str(e)


def _word_list(
    words: Sequence[str], flags: int, hidden: set[int], around: word_lists.Ends, unknown: str | None = None
) -> Tokens:
    """A vocabulary of words, for texts to classify. around: tokens at the ends of a text. unknown: a word."""
    found = listed(Tokens(_checked([_bytes(word) for word in words]), "WORDPIECE", flags=flags), sorted(hidden))
    token = word_lists.place(words, (unknown,) if unknown else word_lists.UNKNOWN)
    return replace(found, padding=word_lists.place(words, word_lists.PADDING) or 0, framed=(*around, token))


def _before(data: Mapping[str, Any]) -> tuple[int, bool]:
    """Flags for the changes that text gets first, and True if pieces are written in GPT-2's letters for bytes."""
    flags, byte_level = 0, False
    for part in (normalizers := _parts(data.get("normalizer"), "normalizers")):
        if part["type"] == "Prepend" and part["prepend"] in (_UNDERLINE, " "):
            flags |= schema.TOKEN_FLAGS["SPACE"]
        elif not (
            part["type"] == "Replace" and part["pattern"] == {"String": " "} and part["content"] == _UNDERLINE
        ) and part["type"] not in ("NFC", "NFKC", "Precompiled"):  # which leave most text as it is
            _refuse(f"the normalizer {part['type']}")
    for part in _parts(data.get("pre_tokenizer"), "pretokenizers"):
        if part["type"] == "ByteLevel":
            byte_level = True
            flags |= _WORDS if part.get("use_regex", True) else 0
            flags |= _ONE_SPACE if part.get("add_prefix_space") else 0
        elif part["type"] == "Metaspace" and part.get("replacement", _UNDERLINE) == _UNDERLINE:
            scheme = part.get("prepend_scheme") or ("always" if part.get("add_prefix_space", True) else "never")
            flags |= _ONE_SPACE if scheme != "never" else 0
        else:
            _refuse(f"the pre-tokenizer {part['type']}")
    if byte_level and (kinds := {part["type"] for part in normalizers} & {"NFKC", "Precompiled"}):
        raise MicaError(f"tokenizer.json: {min(kinds)} before bytes", todo="take it out, and normalise texts in Python")
    return flags, byte_level


def _letters() -> dict[str, int]:
    """GPT-2's letters for bytes: themselves where they can be seen, others from U+0100 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in seen]
    return {chr(b): b for b in seen} | {chr(256 + i): b for i, b in enumerate(rest)}


def _piece(text: str) -> bytes:
    """A piece as SentencePiece writes it."""
    byte = _BYTE.match(text)
    return bytes([int(byte[1], 16)]) if byte else _bytes(text.replace(_UNDERLINE, " "))


def _ids(vocabulary: Mapping[str, int], added: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    ids = dict(vocabulary) | {t["content"]: t["id"] for t in added}
    if not all(isinstance(i, int) and 0 <= i < schema.MAX_TOKENS for i in ids.values()):
        raise MicaError(f"token numbers that are not from 0 to {schema.MAX_TOKENS - 1}")
    return ids


def _bpe(model: Mapping[str, Any], data: Mapping[str, Any], byte_level: bool) -> tuple[Tokens, set[int]]:
    if model.get("dropout") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        _refuse("BPE with dropout, prefixes or suffixes")
    ids = _ids(model["vocab"], data.get("added_tokens") or ())
    letters = _letters()
    pieces = [b""] * (max(ids.values()) + 1)
    costs = [NEVER] * len(pieces)
    hidden = set()
    for text, i in ids.items():
        known = byte_level and all(c in letters for c in text)
        pieces[i] = bytes(letters[c] for c in text) if known else _piece(text)
        if byte_level and not known:
            hidden.add(i)
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    for rank, (a, b) in enumerate(merges):
        if rank >= NEVER:
            _refuse(f"{len(merges)} merges")
        i = ids[a + b]
        costs[i] = min(costs[i], rank)
    # Bytes to fall back on are not to be found before the character that is the same.
    exact = {pieces[i] for text, i in ids.items() if not _BYTE.match(text)}
    hidden |= {i for text, i in ids.items() if _BYTE.match(text) and pieces[i] in exact}
    return Tokens(_checked(pieces), "MERGES", tuple(costs)), hidden


def _unigram(model: Mapping[str, Any]) -> tuple[Tokens, set[int]]:
    entries = [(str(text), float(score)) for text, score in model["vocab"]]
    pieces = [_piece(text) for text, _ in entries]
    least = min(score for _, score in entries)
    costs, hidden = [], set()
    exact = {pieces[i] for i, (text, _) in enumerate(entries) if not _BYTE.match(text)}
    for i, (text, score) in enumerate(entries):
        # A byte costs what SentencePiece lets an unknown character cost: ten more than the rarest piece.
        value = least - 10 if _BYTE.match(text) else score
        costs.append(min(max(round(-value * 1024), 0), NEVER))
        if _BYTE.match(text) and pieces[i] in exact:
            hidden.add(i)
    unknown = model.get("unk_id")
    if unknown is not None:
        hidden.add(int(unknown))
    return Tokens(_checked(pieces), "UNIGRAM", tuple(costs)), hidden

"""Vocabularies of words, WordPiece and WordLevel, for models that classify texts: by which rule a text becomes words.

    tokenizer.json            its normalizer and its pre-tokenizer say it
    vocab.txt with [CLS]      Hugging Face's BERT
    vocab.txt, "" and [UNK]   Keras' TextVectorization: its get_vocabulary()
    other lists               white space stands between words
Of a list without capitals the letters of a text become small.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from mica.format.schema import TOKEN_FLAGS
from mica.format.words import CONTINUED, LONGEST_WORD, folded

Refuse = Callable[[str], NoReturn]
Ends = tuple[int | None, int | None]
UNKNOWN = ("[UNK]", "<unk>", "<UNK>", "<oov>", "<OOV>", "UNK")
PADDING = ("[PAD]", "<pad>", "<PAD>", "")
_LOWER, _ACCENTS, _MARKS, _BARE = (TOKEN_FLAGS[name] for name in ("LOWER", "ACCENTS", "MARKS", "BARE"))
_BETWEEN = {"BertPreTokenizer": _MARKS, "Whitespace": _MARKS | _BARE, "WhitespaceSplit": 0}


def place(words: Sequence[str], names: Sequence[str]) -> int | None:
    """The token of the first of these names that is there."""
    return next((words.index(name) for name in names if name in words), None)


def in_order(ids: Mapping[str, int]) -> list[str]:
    """Words by their tokens; "" where there is none."""
    words = [""] * (max(ids.values(), default=-1) + 1)
    for word, token in ids.items():
        words[token] = word
    return words


def rule(words: Sequence[str]) -> int:
    """Flags of a list without a tokenizer.json."""
    plain = [w for w in words if w[:1] + w[-1:] not in ("[]", "<>") and w not in UNKNOWN]
    small = 0 if any(w != w.lower() for w in plain) else _LOWER
    if "[CLS]" in words:
        return _MARKS | (small and _LOWER | _ACCENTS)
    return _BARE | _LOWER if list(words[:2]) == ["", "[UNK]"] else small


def kept(pieces: Sequence[bytes]) -> str:
    """A letter of the pieces that boards do not make of its capital, or ""."""
    letters = (c for piece in pieces for c in piece.decode(errors="replace"))
    return next((c for c in letters if c > "\u017f" and c != c.upper() and folded(c.upper(), _LOWER) != c), "")


def check(model: Mapping[str, Any], words: Sequence[str], refuse: Refuse) -> set[int]:
    """Tokens that no text has."""
    mark = CONTINUED.decode()
    if model["type"] == "WordLevel":
        return {k for k, word in enumerate(words) if word.startswith(mark)}
    for name, expected in (("continuing_subword_prefix", mark), ("max_input_chars_per_word", LONGEST_WORD)):
        if (found := model.get(name, expected)) != expected:
            refuse(f"WordPiece with {name} {found!r}")
    return set()


def flags_of(normalizers: Sequence[Mapping[str, Any]], pre: Sequence[Mapping[str, Any]], refuse: Refuse) -> int:
    """Flags for a normalizer and a pre-tokenizer."""
    if len(pre) != 1 or pre[0]["type"] not in _BETWEEN:
        refuse("the pre-tokenizer " + (" and ".join(part["type"] for part in pre) or "none"))
    flags = _BETWEEN[pre[0]["type"]]
    kinds = [part["type"] for part in normalizers]
    for part in normalizers:
        if part["type"] == "BertNormalizer":
            if not (part.get("clean_text", True) and part.get("handle_chinese_chars", True) and flags == _MARKS):
                refuse("the normalizer BertNormalizer without clean_text, handle_chinese_chars or BertPreTokenizer")
            lower, strip = part.get("lowercase", True), part.get("strip_accents")
            flags |= (_LOWER if lower else 0) | (_ACCENTS if (lower if strip is None else strip) else 0)
        elif part["type"] == "Lowercase":
            flags |= _LOWER
        elif part["type"] == "StripAccents" and ("NFD" in kinds or "NFKD" in kinds):
            flags |= _ACCENTS
        elif part["type"] not in ("NFC", "NFKC", "NFD", "NFKD", "Strip"):  # which leave most words as they are
            refuse(f"the normalizer {part['type']}")
    if (flags & _ACCENTS and not flags & _LOWER) or ("NFD" in kinds and not flags & _ACCENTS):
        refuse("a normalizer for accents that leaves capitals, or NFD that leaves accents")
    return flags


def processed(post: Mapping[str, Any] | None, refuse: Refuse) -> Ends:
    """The tokens that a post-processor puts around one text."""
    if post is None or post["type"] == "ByteLevel":
        return None, None
    if post["type"] in ("BertProcessing", "RobertaProcessing"):
        return int(post["cls"][1]), int(post["sep"][1])
    if post["type"] == "Sequence":
        found = [processed(part, refuse) for part in post["processors"]]
        return next((ends for ends in found if ends != (None, None)), (None, None))
    if post["type"] != "TemplateProcessing":
        refuse(f"the post-processor {post['type']}")
    kinds = ["SpecialToken" in part for part in post["single"]]
    at = kinds.index(False)
    before, after = post["single"][:at], post["single"][at + 1 :]
    if len(before) > 1 or len(after) > 1 or kinds.count(False) > 1:
        refuse("a post-processor with several tokens before or behind a text")

    def token(parts: Sequence[Mapping[str, Any]]) -> int | None:
        return next((int(post["special_tokens"][p["SpecialToken"]["id"]]["ids"][0]) for p in parts), None)

    return token(before), token(after)


def padding(options: Mapping[str, Any] | None, special: Mapping[str, int], refuse: Refuse) -> int | None:
    """The token behind a short text."""
    if options and options.get("direction", "Right") != "Right":
        refuse("padding before the text")
    return int(options["pad_id"]) if options else next((special[name] for name in PADDING if name in special), None)

"""Vocabularies of other tools: their content, compared with Hugging Face's tokenizers, and refusals.

The tokens of the first test were given by tokenizers 0.23 for the same files.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_tokens import language_model
from tokenizers import Tokenizer

from mica import engine
from mica.errors import MicaError
from mica.file import codec, tokens
from mica.format.words import MARKS
from mica.importer import vocabulary
from mica.link import answers
from mica.run.board import BoardRunner
from mica.run.host import open_runner

LETTERS = vocabulary._letters()
MERGES = ["t h", "th e", "\u0120 the", "i n", "\u0120 a", "\u00c3 \u00a9", "l l", "in g", "\u0120 t", "1 2"]
ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
WORDS = [
    ("\u2581the", -2.5),
    ("\u2581", -3.0),
    ("the", -4.0),
    ("th", -5.0),
    ("a", -5.5),
    ("in", -4.5),
    ("g", -6.0),
    ("\u2581a", -3.5),
]


def byte_level() -> dict[str, Any]:
    vocab = {c: i for i, c in enumerate(LETTERS)} | {m.replace(" ", ""): 256 + i for i, m in enumerate(MERGES)}
    return {
        "added_tokens": [{"id": 266, "content": "<|endoftext|>", **ADDED}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab | {"<|endoftext|>": 266}, "merges": MERGES},
    }


def as_llama() -> dict[str, Any]:
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{i:02X}>" for i in range(256)),
        *"\u2581theaing1",
        "th",
        "the",
        "\u2581the",
        "in",
        "\u2581a",
    ]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    return {
        "added_tokens": [{"id": i, "content": p, **ADDED} for i, p in enumerate(pieces[:3])],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace]},
        "model": {
            "type": "BPE",
            "vocab": {p: i for i, p in enumerate(pieces)},
            "merges": [["t", "h"], ["th", "e"], ["\u2581", "the"], ["i", "n"], ["\u2581", "a"]],
            "byte_fallback": True,
            "unk_token": "<unk>",
        },
    }


def unigram() -> dict[str, Any]:
    return {
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], *map(list, WORDS)], "byte_fallback": False},
    }


TEXTS = {
    "byte_level": ["the thing", " the  the", "a'll caf\u00e9 12.", "in the\n\n the"],
    "as_llama": ["the thing", "a caf\u00e9 in 1"],
    "unigram": ["the thing a", "thea ath"],
}
IDS = {
    "byte_level": [
        [257, 220, 256, 263],
        [258, 220, 258],
        [64, 6, 262, 220, 66, 64, 69, 261, 220, 265, 13],
        [259, 258, 198, 198, 258],
    ],
    "as_llama": [[270, 259, 268, 271, 266], [272, 259, 102, 263, 105, 198, 172, 259, 271, 259, 267]],
    "unigram": [[1, 2, 4, 6, 7, 8], [1, 5, 8, 4]],
}
MAKE = {"byte_level": byte_level, "as_llama": as_llama, "unigram": unigram}


def save(tmp_path: Path, data: object) -> str:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    return str(path)


@pytest.mark.parametrize("kind", MAKE)
def test_tokens_of_a_tokenizer(tmp_path: Path, kind: str) -> None:
    t = vocabulary.read(save(tmp_path, MAKE[kind]()))
    assert [tokens.encode(t, text) for text in TEXTS[kind]] == IDS[kind]
    assert (t.begin, t.end) == {"byte_level": (266, 266), "as_llama": (1, 2), "unigram": (None, None)}[kind]


@pytest.mark.parametrize("kind", MAKE)
def test_against_tokenizers(tmp_path: Path, kind: str) -> None:
    """The `tokenizers` package makes the same tokens from the same file."""
    theirs = Tokenizer.from_file(save(tmp_path, {"version": "1.0", **MAKE[kind]()}))
    assert [theirs.encode(text).ids for text in TEXTS[kind]] == IDS[kind]


def odd_texts() -> list[str]:
    """Each character up to U+017F, other capitals, wide spaces and emoji: alone, beside its like, between others."""
    ranges = (1, 0x180), (0x386, 0x3AB), (0x400, 0x430), (0x2000, 0x2010), (0x1F5F0, 0x1F600)
    letters = [chr(c) for c in (*(c for r in ranges for c in range(*r)), 0x3000, 0xFE0F, 0x20E3, 0x1F3FD, 0x2122)]
    return [shape.replace("_", c) for c in letters for shape in ("a_1", "  _  t", "a__ _a", "_'ll", " _. _")]


def test_words_of_bytes_end_where_they_end_in_tokenizers(tmp_path: Path) -> None:
    """Byte-level BPE: the same tokens from `tokenizers`, Python and C.

    In a file without MARKS, as before, all characters beyond ASCII are letters.
    """
    path = save(tmp_path, {"version": "1.0", **byte_level()})
    theirs, t = Tokenizer.from_file(path), vocabulary.read(path)
    t = replace(t, position=1)
    native, old = engine.NativeModel(codec.encode(language_model(t))), replace(t, flags=t.flags & ~MARKS)
    before = engine.NativeModel(codec.encode(language_model(old)))
    for text in odd_texts():
        expected = theirs.encode(text).ids
        assert tokens.encode(t, text) == expected == native.encode(text.encode()), text
        assert before.encode(text.encode()) == tokens.encode(old, text), text
    data = "a\u00a0\u2003 t".encode()
    for t_, words in ((old, ["a\u00a0\u2003", " t"]), (t, ["a", "\u00a0\u2003", " t"])):
        assert [data[a:b].decode() for a, b in tokens.words(t_, data)] == words


def test_a_board_makes_the_same_tokens(tmp_path: Path) -> None:
    """Words are GPT-2's, and plain text has no other characters than pieces."""
    for option in ("", ",plain"):
        t = replace(vocabulary.read(save(tmp_path, byte_level()) + option), position=1)
        with open_runner(codec.encode(language_model(t)), "UNIX") as board:
            assert isinstance(board, BoardRunner)
            for text in (TEXT := "".join(odd_texts()))[:4000], TEXT[4000:8000], TEXT[-4000:]:
                board.board.put(text.encode(), "_t")
                code = "print('mica:one', *remote.model._m.encode(str(_t, 'utf-8')))"
                (found,) = answers.ask(board.board, code).one("one", answers.words)
                assert [int(token) for token in found.split()] == tokens.encode(t, text)


def test_a_character_of_another_kind_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A Devanagari vowel sign is no letter to `tokenizers`; the tables of boards do not have it."""
    data = byte_level()
    data["model"]["vocab"] |= {"".join(c for b in "\u093e".encode() for c, k in LETTERS.items() if k == b): 267}
    with caplog.at_level("INFO", "mica"):
        vocabulary.read(save(tmp_path, byte_level()))
        assert "another kind" not in caplog.text
        vocabulary.read(save(tmp_path, data))
    assert "'\u093e': boards take it for another kind of character" in caplog.text


def test_plain_is_asked_for(tmp_path: Path) -> None:
    path = save(tmp_path, ["", "a", "b", " "])
    assert tokens.encode(vocabulary.read(f"{path},plain"), "B, \u00c1!") == [2, 3, 1]
    (tmp_path / "v.txt").write_text("[UNK]\na")
    with pytest.raises(MicaError, match="'plain'"):
        vocabulary.read(f"{tmp_path / 'v.txt'},plain")


def test_a_list_of_pieces(tmp_path: Path) -> None:
    path = save(tmp_path, ["", "a", "b", "ba", "ab"])
    t = vocabulary.read(f"{path},begin=0,end=4,space")
    assert (t.begin, t.end, t.has("SPACE"), t.method) == (0, 4, True, "LONGEST")
    assert tokens.encode(vocabulary.read(path), "abab") == [4, 4]
    assert tokens.encode(vocabulary.read(path + ",merges"), "abab") == [1, 3, 2]  # ba comes before ab


@pytest.mark.parametrize(
    ("data", "option", "text"),
    [
        (["a"], ",begin=1", "'begin=1'; begin=N, end=N, padding=N and unknown=N with N from 0 to 0"),
        (["a"], ",start", "'start'"),
        (["a", 3], "", "entry 1 is no string; a list of strings"),
        ([], "", "0 pieces of 0 bytes"),
        (["", ""], "", "no piece has a text"),
        (["a" * 40000, "b" * 40000], "", "2 pieces of 80000 bytes; a file holds 1 to 65534 pieces of 65535 bytes"),
        ({"a": "b"}, "", "token numbers that are not from 0"),
        ({"model": {"type": "Words", "vocab": {}}}, "", "a model of the type 'Words', which boards do not do"),
        (byte_level() | {"pre_tokenizer": {"type": "Digits"}}, "", "the pre-tokenizer Digits"),
        (byte_level() | {"normalizer": {"type": "Lowercase"}}, "", "the normalizer Lowercase"),
        (
            byte_level() | {"normalizer": {"type": "NFKC"}},
            "",
            "tokenizer.json: NFKC before bytes; take it out",
        ),
        ({"model": {"type": "BPE", "vocab": {"a": 70000}, "merges": []}}, "", "token numbers that are not from 0"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["b c"]}}, "", "no vocabulary"),
        ({"model": {"type": "Unigram", "vocab": []}}, "", "no vocabulary"),
    ],
)
def test_what_is_refused(tmp_path: Path, data: object, option: str, text: str) -> None:
    with pytest.raises(MicaError) as error:
        vocabulary.read(save(tmp_path, data) + option)
    assert text in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MicaError, match="cannot be read"):
        vocabulary.read(str(tmp_path / "no.json"))
    (tmp_path / "x.json").write_bytes(b"\xff\x00")
    with pytest.raises(MicaError, match="no JSON"):
        vocabulary.read(str(tmp_path / "x.json"))
    (tmp_path / "x.json").write_text("[" * 100000)
    with pytest.raises(MicaError, match="no JSON"):
        vocabulary.read(str(tmp_path / "x.json"))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
@pytest.mark.parametrize(
    "text",
    [
        '{"model": {"type": "Unigram", "vocab": [["a", N], ["b", -1.0]]}}',
        '{"model": {"type": "Unigram", "unk_id": N, "vocab": [["a", -2.0], ["b", -1.0]]}}',
        '{"model": {"type": "BPE", "vocab": {"a": N}, "merges": []}}',
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [{"id": N, "content": "x"}]}',
        '["a", N]',
    ],
)
def test_numbers_that_are_not_finite(tmp_path: Path, text: str, number: str) -> None:
    (tmp_path / "x.json").write_text(text.replace("N", number))
    with pytest.raises(MicaError, match=r"x\.json: .*not finite"):
        vocabulary.read(str(tmp_path / "x.json"))

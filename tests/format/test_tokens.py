"""The section TOKENS: its bytes, its checks in Python and in C, text to tokens and back,
and tokens drawn by their scores.

C and Python are compared with each other on random vocabularies, texts and scores.
What neither of them says: the tokens of SentencePiece's own run over 25 stories,
which come with the shared models (tests/host/test_text.py); GPT-2's expression for words; softmax in float64.
"""

from __future__ import annotations

import ctypes
import random
import re
import struct
import unicodedata
from collections import Counter
from dataclasses import replace

import c_build
import numpy as np
import pytest

from mica import board_code, engine
from mica.file import codec, tokens
from mica.file.codec import FormatError, ModelFile, StepRecord, TensorRecord
from mica.file.tokens import NEVER, Tokens, Unspelled, listed
from mica.format import schema, words
from mica.reference.sample import sample, weights

needs_engine = pytest.mark.skipif(not engine.AVAILABLE, reason="the C engine was not built")


def language_model(t: Tokens | None, inputs: int = 2) -> ModelFile:
    """A model whose scores are a row of a table: the test is about its vocabulary."""
    n = 1 if t is None else len(t.pieces)
    table = (np.arange(2 * n) % 251 - 125).astype(np.int8).reshape(2, n)
    facts = [TensorRecord(f"number{i}", "int32", (1,), offset=16 * i) for i in range(inputs)]
    facts.append(TensorRecord("scores", "int8", (1, n), 0.1, 0, offset=16 * inputs))
    step = StepRecord("look", "embedding_s8", (0,), (inputs,), {"rows": 2}, {"table": table})
    return ModelFile(facts, [step], list(range(inputs)), [inputs], tokens=t)


def classifier(t: Tokens) -> ModelFile:
    """A model of six tokens, whose mask nothing reads."""
    table = (np.arange(2 * len(t.pieces)) % 251 - 125).astype(np.int8).reshape(-1, 2)
    facts = [TensorRecord("ids", "int32", (1, 6)), TensorRecord("mask", "int8", (1, 6), 1.0, -128, offset=32)]
    facts.append(TensorRecord("scores", "int8", (1, 6, 2), 0.1, 0, offset=48))
    step = StepRecord("look", "embedding_s8", (0,), (2,), {"rows": len(table)}, {"table": table})
    return ModelFile(facts, [step], [0, 1], [2], tokens=t)


def vocabulary(method: str, seed: int = 0, letters: str = "abc \u00e9", most: int = 60, **facts: object) -> Tokens:
    """Random pieces of a few letters, all single bytes of them among these."""
    r = random.Random(seed)
    pieces = {bytes([b]) for c in letters for b in c.encode()}
    while len(pieces) < most:
        pieces.add("".join(r.choice(letters) for _ in range(r.randint(1, 4))).encode()[: r.randint(1, 6)])
    order = sorted(pieces)
    r.shuffle(order)
    costs = () if method == "LONGEST" else tuple(r.choice((r.randint(0, 200), NEVER)) for _ in order)
    return replace(listed(Tokens(tuple(order), method, costs, begin=0, end=3, position=1)), **facts)


CASES = [
    ("LONGEST", 0),
    ("MERGES", 0),
    ("MERGES", schema.TOKEN_FLAGS["WORDS"]),
    ("MERGES", schema.TOKEN_FLAGS["WORDS"] | schema.TOKEN_FLAGS["BYTES"]),
    ("UNIGRAM", 0),
]


@pytest.mark.parametrize(("method", "flags"), CASES)
def test_round_trip(method: str, flags: int) -> None:
    t = vocabulary(method, flags=flags, positions=9)
    data = codec.encode(language_model(t))
    assert codec.decode(data).tokens == t
    assert codec.decode(data).features == schema.FEATURES["TOKENS"]
    assert codec.decode(codec.encode(language_model(None, 1))).features == 0


@needs_engine
@pytest.mark.parametrize(("method", "flags"), CASES)
def test_c_and_python_agree(method: str, flags: int) -> None:
    r = random.Random(5)
    spelled = 0
    for seed in range(8):
        t = vocabulary(method, seed, letters="ab1'\u00e9 ", flags=flags)
        if seed % 2:  # some letters cannot be spelled
            t = replace(t, listed=tuple(i for i in t.listed if t.pieces[i] != b"1"))
        native = engine.NativeModel(codec.encode(language_model(t)))
        for _ in range(25):
            text = "".join(
                r.choice("aab1'\u00e9  \n\u20ac"[: r.randint(3, 10)]) for _ in range(r.randint(0, 40))
            ).encode()
            try:
                expected: object = tokens.encode(t, text)
                assert b"".join(t.pieces[i] for i in tokens.encode(t, text)) == text
                spelled += 1
            except Unspelled as e:
                expected = e.byte
            try:
                found: object = native.encode(text)
            except Unspelled as e:
                found = e.byte
            assert found == expected, (seed, text)
    assert spelled > 60


LETTERS = (
    "aAbB1\u00e9\u00c9\u00e6\u0142\u0130\u0178\u017e\u03a9'._-$ \t\n\x85\u2028\u0301\u200b\u2014\ufffd\u4e2d\U0001f600"
)
RULES = [
    ("WORDPIECE", flags, 2)
    for flags in (0, schema.TOKEN_FLAGS["LOWER"], words.LOWER | words.ACCENTS)
    for flags in (flags, flags | words.MARKS, flags | words.BARE, flags | words.MARKS | words.BARE)
]


@needs_engine
@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u4e2d"])
def test_the_longest_word(letter: str) -> None:
    """100 letters of one to three bytes are a word; one more, and it is unknown. Alone, and between others."""
    pieces = sorted({letter.encode(), b"##" + letter.encode(), b"-", b"?"})
    unknown = pieces.index(b"?")
    t = listed(Tokens(tuple(pieces), "WORDPIECE", (), schema.TOKEN_FLAGS["CLASSES"]), [unknown])
    t = replace(t, unknown=unknown, length=1, padding=1)
    native = engine.NativeModel(codec.encode(classifier(t)))
    for letters in (1, 99, 100, 101, 102):
        for before, behind in (("", ""), ("- ", ""), ("", " -"), (letter + " ", " " + letter)):
            text = f"{before}{letter * letters}{behind}".encode()
            others = [t.pieces.index(part.encode()) for part in (before.strip(), behind.strip()) if part]
            long = [unknown] if letters > words.LONGEST_WORD else [pieces.index(letter.encode())]
            long += [] if letters > words.LONGEST_WORD else [pieces.index(b"##" + letter.encode())] * (letters - 1)
            expected = [*others[: bool(before)], *long, *others[bool(before) :]]
            assert list(native.encode(text)) == list(tokens.encode(t, text)) == expected, (letters, before, behind)


@needs_engine
@pytest.mark.parametrize(
    ("method", "flags", "unknown"),
    [*((method, 0, unknown) for method in ("LONGEST", "MERGES", "UNIGRAM") for unknown in (2, None)), *RULES],
)
def test_texts_to_classify(method: str, flags: int, unknown: int | None) -> None:
    """C and Python, with and without a token for what no piece spells."""
    r = random.Random(flags)
    pieces = {"".join(r.choice("aab\u00e9e'.z1") for _ in range(r.randint(1, 3))).encode() for _ in range(60)}
    pieces |= {b"##" + piece for piece in list(pieces)[::2]} | {b"a", b"##b"} - {b"1"}
    order = sorted(pieces)
    costs = tuple(r.randint(0, 99) for _ in order) if method in ("MERGES", "UNIGRAM") else ()
    t = replace(
        listed(Tokens(tuple(order), method, costs, flags | schema.TOKEN_FLAGS["CLASSES"]), [2]), unknown=unknown
    )
    t = replace(t, length=1, padding=1)
    data = codec.encode(classifier(t))
    assert codec.decode(data).tokens == t
    native = engine.NativeModel(data)
    ways = set()
    for k in range(60):
        text = "".join(r.choice(LETTERS if k % 2 else "aab'. ") for _ in range(r.randint(0, 20))).encode()
        text += b"a" * r.choice([0, 0, 99, 100, 101])
        try:
            expected: object = tokens.encode(t, text)
            ways |= set(tokens.encode(t, text))
        except Unspelled as e:
            expected = e.byte
        try:
            found: object = native.encode(text)
        except Unspelled as e:
            found = e.byte
        assert found == expected, text
    assert (2 in ways) == (unknown is not None) and (unknown is None or len(ways) > 3)


@needs_engine
def test_capitals_and_accents() -> None:
    """Each Latin letter up to U+0180 and each Cyrillic one becomes what Python's own tables say: a piece for each of
    theirs."""
    letters = (*range(33, 0x180), *range(0x400, 0x460), *words.CYRILLIC_PAIRS)
    small = {c: chr(c).lower()[0] for c in letters if chr(c).isalnum()}
    for flags, expected in (
        (words.LOWER, small),
        (words.LOWER | words.ACCENTS, {c: unicodedata.normalize("NFD", s)[0] for c, s in small.items()}),
    ):
        pieces = tuple(sorted(s.encode() for s in set(expected.values())))
        pieces = (b"", *pieces)
        t = Tokens(pieces, "WORDPIECE", flags=flags | schema.TOKEN_FLAGS["CLASSES"], length=1, unknown=0)
        t = listed(t)
        native = engine.NativeModel(codec.encode(classifier(t)))
        for c, letter in expected.items():
            assert pieces[native.encode(chr(c).encode())[0]].decode() == letter, hex(c)


@needs_engine
def test_plain_text_in_c_and_python() -> None:
    """A file with LOWER makes text plain first, by each method, with and without SPACE: only pieces are left."""
    r = random.Random(2)
    for method, flags in [(m, f | words.LOWER) for m, f in CASES] + [
        ("LONGEST", words.LOWER | schema.TOKEN_FLAGS["SPACE"])
    ]:
        t = vocabulary(method, 1, letters="aeB\u00e9'\n ", flags=flags)
        native = engine.NativeModel(codec.encode(language_model(t)))
        space = " " if t.has("SPACE") else ""
        for _ in range(60):
            text = "".join(r.choice(LETTERS + "AEB\u00c9\u00cb\u00c1\u2019  \n") for _ in range(r.randint(0, 20)))
            found = tokens.encode(t, text)
            assert native.encode((space + text if text else "").encode()) == found, text
            spelled = b"".join(t.pieces[i] for i in found).decode()
            assert spelled == (space if text else "") + words.plain(text, {t.pieces[i]: i for i in t.listed})
        assert words.plain(" \u00c9A,b\u2019  B!\n e\u0301", {t.pieces[i]: i for i in t.listed}) == "\u00e9a ' B\ne"
    before = replace(t, flags=0)  # a file of a released version
    with pytest.raises(Unspelled):
        tokens.encode(before, "A")


def test_a_row_of_tokens() -> None:
    """Around a text stand begin and end, behind it padding; the end of a long one is left out."""
    t = replace(listed(Tokens((b"", b"<", b">", b"a"))), begin=1, end=2)
    assert tokens.row(t, "aa", 6) == ([1, 3, 3, 2, 0, 0], 4)
    assert tokens.row(t, "aaaaaaa", 4) == ([1, 3, 3, 2], 4)
    made = tokens.arrays(replace(t, token=1, length=0, position=2), dict.fromkeys("mit", (1, 4)), ["a", ""])
    assert {name: x.tolist() for name, x in made.items()} == {
        "m": [[1, 1, 1, 0], [1, 1, 0, 0]],
        "i": [[1, 3, 2, 0], [1, 2, 0, 0]],
        "t": [[0] * 4] * 2,
    }


@needs_engine
@pytest.mark.parametrize(
    ("lead", "length"),
    [(0xBF, 1), (0xC0, 2), (0xDF, 2), (0xE0, 3), (0xEF, 3), (0xF0, 4), (0xF7, 4), (0xF8, 1), (0xFF, 1)],
)
def test_where_a_character_ends(lead: int, length: int) -> None:
    """Merges begin with whole characters if there are pieces for them. Merging two pieces costs too much here."""
    text = bytes([lead, 0x81, 0x82, 0x83])
    pieces = (*(text[:n] for n in (1, 2, 3, 4)), *(bytes([b]) for b in text[1:]))
    t = listed(Tokens(pieces, "MERGES", (NEVER,) * len(pieces), begin=0, end=3, position=1))
    expected = [length - 1, *range(3 + length, 7)]
    assert tokens.encode(t, text) == expected
    assert engine.NativeModel(codec.encode(language_model(t))).encode(text) == expected


def test_least_costs() -> None:
    """UNIGRAM, against all ways of taking a text apart."""
    t = vocabulary("UNIGRAM", 3, letters="ab", most=12)
    ids = {t.pieces[i]: i for i in t.listed}

    def ways(text: bytes) -> list[list[int]]:
        if not text:
            return [[]]
        cuts = range(1, len(text) + 1)
        return [[ids[text[:n]], *rest] for n in cuts if text[:n] in ids for rest in ways(text[n:])]

    for text in (b"abba", b"aabbabab", b"bbbbbbb"):
        cost = min(sum(t.costs[i] for i in way) for way in ways(text))
        assert sum(t.costs[i] for i in tokens.encode(t, text)) == cost


def test_words_are_those_of_gpt_2() -> None:
    """Its expression, as its source has it, with \\p{L} and \\p{N} of ASCII and letters beyond."""
    gpt2 = re.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z\u0080-\uffff]+| ?[0-9]+| ?[^\sA-Za-z0-9\u0080-\uffff]+|\s+(?!\S)|\s+"
    )
    t = Tokens((b"a",), "MERGES", (0,), schema.TOKEN_FLAGS["WORDS"])
    r = random.Random(1)
    for _ in range(500):
        text = "".join(r.choice("ast'relvmd  \n\t09.,\u00e9\u20ac") for _ in range(r.randint(0, 30)))
        data = text.encode()
        assert [data[a:b].decode() for a, b in tokens.words(t, data)] == gpt2.findall(text), text


def test_merges_in_the_order_of_their_cost() -> None:
    t = listed(Tokens((b"a", b"b", b"c", b"ab", b"bc", b"abc"), "MERGES", (9, 9, 9, 2, 1, 3)))
    assert tokens.encode(t, "abcab") == [5, 3]  # bc first, then a with bc; ab
    assert tokens.encode(replace(t, costs=(9, 9, 9, 2, 1, NEVER)), "abc") == [0, 4]


def test_space_and_equal_pieces() -> None:
    t = replace(listed(Tokens((b"", b" a", b"a", b"a"))), flags=schema.TOKEN_FLAGS["SPACE"])
    assert tokens.encode(t, "aa") == [1, 3] and tokens.encode(t, "") == []
    with pytest.raises(Unspelled, match="no piece for '\u20ac', byte 1 of the text; leave it out"):
        tokens.encode(t, "a\u20ac")


def test_characters_come_whole() -> None:
    """On a board and, by the same code, here; bytes as text are the board's."""
    board = board_code.load("text")
    text = "a\u00e9\u20ac\U0001f600z"
    data = text.encode()
    for cut in range(len(data) + 1):
        n = board.whole(data[:cut])
        assert 0 <= cut - n <= 3 and text.startswith(tokens.text(data[:n]))
        assert "\ufffd" not in tokens.text(data[:n])
    for bad, n in ((b"a\xff", 2), (b"\x80\x80\x80\x80", 4), (b"\xe2\x28", 2), (b"\xed\xa0", 0), (b"\xf5", 1)):
        assert board.whole(bad) == n
    for bytes_ in (
        b"a\xff\xe2\x82b\xed\xa0\x80",
        b"\xf0\x9f\x98",
        b"\xc3\x28",
        b"\xe0\x80\x80",
        b"\xf4\x90\x80\x80",
        data,
    ):
        assert board.decode(bytes_) == tokens.text(bytes_)
    assert tokens.text(b"a\xff\xe2\x82b\xed\xa0\x80") == "a\ufffd\ufffd\ufffdb\ufffd\ufffd\ufffd"


# ---- files that are wrong

Damage = tuple[str, int, bytes]


def damaged(classes: bool) -> list[tuple[str, bytes]]:
    """A sound section with one thing changed in each."""
    t = vocabulary("MERGES", **{"flags": 8, "position": None, "length": 1, "unknown": 1} if classes else {})
    data = codec.encode(classifier(t) if classes else language_model(t))
    assert data == codec.encode(codec.decode(data))
    at = next(s.offset for n, s in sections(data).items() if n == "TOKENS")
    out = []
    for f in schema.TOKENS:
        place = at + codec.field_offset(schema.TOKENS, f.name)
        for value in {0, 1, 2, 60, 61, 0x7FFF, 0xFFFE, 0xFFFF, 2**31, 2**32 - 1}:
            size = schema.TYPE_BYTES[f.type]
            new = (value % 256**size).to_bytes(size, "little")
            if new != data[place : place + size]:
                out.append((f"{f.name} {value}", data[:place] + new + data[place + size :]))
    body = at + schema.record_bytes(schema.TOKENS)
    for k in range(0, 2 * (2 * len(t.pieces) + 1), 2):
        for new in (b"\0\0", b"\xff\xff", b"\x05\0"):
            out.append((f"number {k // 2}", data[: body + k] + new + data[body + k + 2 :]))
    feature = codec.field_offset(schema.HEADER, "features")
    out.append(("no feature", data[:feature] + bytes(4) + data[feature + 4 :]))
    plain = codec.encode(language_model(None, 1))
    out.append(("no section", plain[:feature] + b"\x04" + plain[feature + 1 :]))
    return out


def sections(data: bytes) -> dict[str, codec._Section]:
    return codec._sections(data, codec.unpack_record(schema.HEADER, data, 0))


@needs_engine
@pytest.mark.parametrize("classes", [False, True])
def test_damaged_sections_get_one_verdict(classes: bool) -> None:
    refused = 0
    for what, data in damaged(classes):
        sound = codec.with_crc(data)
        try:
            t = codec.decode(sound).tokens
        except FormatError as e:
            assert "\n" not in str(e)
            t = None
        if t is None:
            refused += 1
            with pytest.raises(FormatError):
                engine.NativeModel(sound)
                pytest.fail(what)
        else:
            native = engine.NativeModel(sound)
            try:
                expected = tokens.encode(t, b"abba")
            except Unspelled:
                continue
            text = b" abba" if t.has("SPACE") else b"abba"  # the space is the caller's to put there
            assert native.encode(text) == expected, what
    assert refused > 200


def test_a_model_that_is_none_for_tokens() -> None:
    t = vocabulary("LONGEST")
    for changed, text in (
        (replace(t, token=2), "model input 2"),
        (replace(t, position=0), "for token, position and length"),
        (replace(t, position=None), "the model has 2"),
        (replace(t, output=1), "model output 1"),
        (replace(t, padding=60), "token 60 as padding"),
        (replace(t, method="WORDPIECE"), "which is for classes"),
        (replace(t, method="WORDPIECE", flags=schema.TOKEN_FLAGS["CLASSES"]), "words of which some are unknown"),
        (replace(t, flags=schema.TOKEN_FLAGS["CLASSES"], unknown=60), "60 as unknown"),
        (replace(t, length=1, position=None), "a window of 0"),
        (replace(t, pieces=t.pieces[:1], listed=(0,), end=0), "expected 1 int8"),
    ):
        model = replace(language_model(t), tokens=changed)
        with pytest.raises(FormatError, match=text):
            codec.encode(model)


# ---- drawing


@needs_engine
def test_drawing_in_c_and_python() -> None:
    r = np.random.default_rng(1)
    for _ in range(400):
        n = int(r.integers(1, 600))
        y = np.clip(np.rint(r.normal(0, r.choice([1, 10, 60]), n)), -128, 127).astype(np.int8)
        scale = float(np.float32(10 ** r.uniform(-4, 1)))
        temperature = int(r.choice([0, 1, 10, 100, 500, 800, 1000, 3000, 10000]))
        top_k, state = int(r.integers(1, n + 1)), int(r.integers(1, 2**32))
        expected = sample(y, scale, temperature, top_k, state)
        assert engine.sample(y, scale, temperature, top_k, state) == expected


@pytest.mark.parametrize(("scale", "temperature"), [(0.15, 1000), (0.15, 800), (0.03, 2000), (1.5, 500)])
def test_weights_are_softmax(scale: float, temperature: int) -> None:
    """Weights equal softmax within the error of 16 bits and of the cubic: 2^-16 and 1.1e-4 of the largest."""
    real = np.exp(-np.arange(256) * scale * 1000 / temperature)
    assert np.max(np.abs(np.array(weights(scale, temperature)) / 65536 - real)) < 1.3e-4


def test_what_is_drawn_has_its_share() -> None:
    y = np.array([3, 1, -4, 3, 0, -100], np.int8)
    state, found = 7, Counter[int]()
    n = 20000
    for _ in range(n):
        token, state = sample(y, 0.5, 1000, 4, state)
        found[token] += 1
    p = np.exp(0.5 * y[[0, 1, 3, 4]].astype(float))
    expected = dict(zip((0, 1, 3, 4), n * p / p.sum(), strict=True))
    assert set(found) == set(expected)  # the four largest
    assert sum((found[k] - e) ** 2 / e for k, e in expected.items()) < 16.3  # chi squared, 3 degrees: 0.001
    ties = np.zeros(9, np.int8)
    assert {sample(ties, 1.0, 1000, 2, s)[0] for s in range(1, 2**32, 2**26)} == {0, 1}
    assert sample(ties, 1.0, 0, 9, 1) == (0, 1)


@needs_engine
def test_what_is_far_below_is_never_drawn() -> None:
    """Of thousands of scores 26 nats below the largest, each weighs nothing, not the least possible weight."""
    y = np.full(6000, -128, np.int8)
    y[17] = 127
    for state in range(1, 2**32, 2**26):
        for draw in (engine.sample, sample):
            assert draw(y, 0.1, 1000, len(y), state)[0] == 17


@needs_engine
def test_a_token_that_is_none_has_no_bytes() -> None:
    """A token beyond the vocabulary has no bytes, nor has one whose offsets were damaged after the load."""
    library = c_build.whole_engine()

    class Pieces(ctypes.Structure):
        _fields_ = [(name, ctypes.c_char_p) for name in ("offsets", "list", "costs", "pieces")]
        _fields_ += [(name, ctypes.c_uint32) for name in ("count", "listed", "piece_bytes")]

    pieces = Pieces(offsets=struct.pack("<5H", 0, 2, 1, 4, 9), pieces=b"abcd", count=4, piece_bytes=4)
    found = []
    for token in range(6):
        n = ctypes.c_uint32(77)
        library.mica_piece(ctypes.byref(pieces), token, ctypes.byref(n))
        found.append(n.value)
    assert found == [2, 0, 3, 0, 0, 0]

"""Models that classify texts: a vocabulary in the file, texts as samples, and the answers to texts.

Truth: Hugging Face's `tokenizers` for the tokens and ONNX Runtime for the scores, of a network that is trained here.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import text_nets
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from mica.cli.main import main
from mica.errors import MicaError
from mica.file import tokens
from mica.importer import vocabulary
from mica.link import answers
from mica.run.board import BoardRunner
from mica.run.host import open_runner

LABELS = ("weather", "food", "sport")
SAID = [
    ("Rain all morning, sun in the afternoon", 0),
    ("It will snow again tonight!", 0),
    ("A cold wind blows from the sea", 0),
    ("Clouds and fog, no sun today", 0),
    ("Storm and heavy rain tomorrow", 0),
    ("The soup needs salt and pepper", 1),
    ("Bake the bread in a hot oven", 1),
    ("Crème brûlée with sugar, please", 1),
    ("I like cheese and fresh bread", 1),
    ("Fry the onions, then add rice", 1),
    ("Our team won the match", 2),
    ("She scored two goals in the final", 2),
    ("The players train every morning", 2),
    ("He ran the marathon and won", 2),
    ("A penalty in the last minute of the match", 2),
]
HELD = [
    ("Heavy snow and cold wind tonight", 0),
    ("Fog in the morning; rain tomorrow?", 0),
    ("More SALT in the soup, and bread with cheese, and rice with onions and pepper, and then again", 1),
    ("creme with sugar", 1),
    ("The team trains for the final", 2),
    ("two penalty goals won the match", 2),
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LENGTH = 16


def word_pieces() -> list[str]:
    """Whole words, and pieces of some of them."""
    plain = normalizers.BertNormalizer(lowercase=True)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    words = {word for text, _ in SAID for word, _ in split(plain.normalize_str(text))}
    return [*SPECIAL, *sorted(words | {"##s", "##ing", "##ed", "##er", "goal", "train"} - {"goals", "tonight"})]


def bert(words: list[str]) -> Tokenizer:
    t = Tokenizer(models.WordPiece({word: k for k, word in enumerate(words)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    t.add_special_tokens(SPECIAL)
    t.enable_truncation(LENGTH)
    t.enable_padding(length=LENGTH)
    return t


def rows(t: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    found = t.encode_batch(texts)
    return np.array([e.ids for e in found]), np.array([e.attention_mask for e in found])


def trained(t: Tokenizer, n: int) -> dict[str, np.ndarray]:
    """Embeddings and weights of a mean of embeddings, by gradient descent."""
    ids, mask = rows(t, [text for text, _ in SAID])
    truth = np.eye(3)[[label for _, label in SAID]]
    rng = np.random.default_rng(0)
    e, w = rng.normal(0, 0.3, (n, 8)), rng.normal(0, 0.5, (8, 3))
    share = mask / mask.sum(axis=1, keepdims=True)
    for _ in range(300):
        h = np.einsum("ij,ijk->ik", share, e[ids])
        z = h @ w
        p = np.exp(z - z.max(axis=1, keepdims=True))
        d = p / p.sum(axis=1, keepdims=True) - truth
        np.add.at(e, ids, -1.0 * share[:, :, None] * (d @ w.T)[:, None])
        w -= 0.1 * h.T @ d
    return {"e": e.astype(np.float32), "w": w.astype(np.float32)}


NET = """(int64[1,16] input_ids, int64[1,16] attention_mask, int64[1,16] token_type_ids) => (float[1,3] y) {
    words = Gather(e, input_ids)
    kinds = Gather(k, token_type_ids)
    both = Add(words, kinds)
    m = Cast<to=1>(attention_mask)
    m3 = Unsqueeze(m, two)
    seen = Mul(both, m3)
    sum = ReduceSum<keepdims=0>(seen, one)
    n = ReduceSum<keepdims=1>(m, one)
    mean = Div(sum, n)
    z = MatMul(mean, w)
    y = Softmax(z)
}"""
PLAIN = """(int32[1,16] ids) => (float[1,3] y) {
    words = Gather(e, ids)
    mean = ReduceMean<axes=[1], keepdims=0>(words)
    z = MatMul(mean, w)
    y = Softmax(z)
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the network, its tokenizer, tables of texts, labels, and the packed file."""
    folder = tmp_path_factory.mktemp("texts")
    words = word_pieces()
    t = bert(words)
    t.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    net = trained(t, len(words))
    text_nets.save(
        folder / "net.onnx", NET, **net, k=np.zeros((2, 8), np.float32), one=np.array([1]), two=np.array([2])
    )
    text_nets.save(folder / "plain.onnx", PLAIN, **net)
    (folder / "labels.txt").write_text("\n".join(LABELS))
    for name, pairs in (("said", SAID), ("held", HELD)):
        lines = [f"{text}\t{LABELS[k]}" for text, k in pairs]
        (folder / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]))
    assert main(pack(folder, "net.onnx")) == 0
    return folder


def pack(folder: Path, name: str, vocab: str = "tokenizer.json", *more: str) -> list[str]:
    found = ["pack", str(folder / name), "--tokens", str(folder / vocab), "--labels", str(folder / "labels.txt")]
    out = str((folder / name).with_suffix(".mica"))
    return [*found, "--calib", str(folder / "said.tsv"), "-o", out, *more]


def truth(made: Path, texts: list[str]) -> np.ndarray:
    """ONNX Runtime's scores of tokenizers' tokens."""
    session = onnxruntime.InferenceSession(made / "net.onnx")
    found = []
    for ids, mask in zip(*rows(Tokenizer.from_file(str(made / "tokenizer.json")), texts), strict=True):
        feeds = {"input_ids": ids[None], "attention_mask": mask[None], "token_type_ids": ids[None] * 0}
        found.append(session.run(None, feeds)[0][0])
    return np.array(found)


def test_answers(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The float network's scores, of a text that is too long too; the float network is right."""
    expected = truth(made, [text for text, _ in HELD])
    assert expected.argmax(axis=1).tolist() == [label for _, label in HELD]
    for (text, _), scores in zip(HELD, expected, strict=True):
        assert main(["run", str(made / "net.mica"), "--text", text, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["outputs"][0]["values"]
        np.testing.assert_allclose(found, scores, atol=0.03)


def test_plain_tokens_and_a_list(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model of tokens alone, with a vocab.txt; a table of texts is its labelled data."""
    assert main(pack(made, "plain.onnx", "vocab.txt", "--data", str(made / "held.tsv"))) == 0
    capsys.readouterr()
    assert main(["eval", str(made / "plain.mica"), str(made / "held.tsv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    session = onnxruntime.InferenceSession(made / "plain.onnx")
    ids, _ = rows(Tokenizer.from_file(str(made / "tokenizer.json")), [text for text, _ in HELD])
    right = [
        int(session.run(None, {"ids": row[None].astype(np.int32)})[0].argmax() == label)
        for row, (_, label) in zip(ids, HELD, strict=True)
    ]
    assert found["samples"] == len(HELD) and found["value"] == pytest.approx(np.mean(right))


def test_on_a_board(made: Path) -> None:
    """mica.classify gives what the host gives."""
    data = (made / "net.mica").read_bytes()
    expected = truth(made, [text for text, _ in HELD])
    with open_runner(data, "UNIX") as board:
        assert isinstance(board, BoardRunner)
        for (text, label), scores in zip(HELD, expected, strict=True):
            board.board.put(text.encode(), "_t")
            code = "import mica\nfor n, s in mica.classify(remote.model, str(_t, 'utf-8'), 2): print('mica:one', n, s)"
            found = [line[0].split() for line in answers.ask(board.board, code).all("one", answers.words)]
            assert found[0][0] == LABELS[label] and len(found) == 2
            assert float(found[0][1]) == pytest.approx(scores[label], abs=0.03)
        code = "try: mica.generate(remote.model, 'a')\nexcept ValueError as e: print('mica:one', e)"
        (line,) = answers.ask(board.board, code).one("one", answers.words)
        assert line == "generate: this model classifies texts; mica.classify() asks it"


# ---- vocabularies


def word_level(**more: Any) -> Tokenizer:
    t = Tokenizer(
        models.WordLevel({"<pad>": 0, "<unk>": 1, "rain": 2, "and": 3, "...": 4, "sun": 5}, unk_token="<unk>")
    )
    for name, part in more.items():
        setattr(t, name, part)
    return t


def unigram() -> Tokenizer:
    pieces = [
        ("<unk>", 0.0),
        ("\u2581rain", -2.0),
        ("\u2581", -3.0),
        ("ra", -3.5),
        ("in", -4.0),
        ("s", -5.0),
        ("un", -4.5),
    ]
    t = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    return t


def merges() -> Tokenizer:
    vocab = {c: k for k, c in enumerate(["<unk>", "r", "a", "i", "n", "s", "u", "ra", "in", "rain", "\u2581"])}
    t = Tokenizer(models.BPE(vocab, [("r", "a"), ("i", "n"), ("ra", "in")], unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.add_special_tokens(["<unk>"])
    return t


def byte_level() -> Tokenizer:
    letters = pre_tokenizers.ByteLevel.alphabet()
    vocab = {c: k for k, c in enumerate(["<unk>", *sorted(letters), "ra", "\u0120ra", "in"])}
    t = Tokenizer(models.BPE(vocab, [("r", "a"), ("\u0120", "ra"), ("i", "n")]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
    return t


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "bert": lambda: bert(word_pieces()),
    "level": lambda: word_level(normalizer=normalizers.Lowercase(), pre_tokenizer=pre_tokenizers.WhitespaceSplit()),
    "runs": lambda: word_level(pre_tokenizer=pre_tokenizers.Whitespace()),
    "unigram": unigram,
    "merges": merges,
    "bytes": byte_level,
}


@pytest.mark.parametrize("kind", KINDS)
def test_tokens(kind: str, tmp_path: Path) -> None:
    """Unknown characters and words, marks, accents, and all characters up to U+017F between two letters."""
    theirs = KINDS[kind]()
    theirs.no_padding()
    theirs.no_truncation()
    theirs.save(str(tmp_path / "tokenizer.json"))
    t = vocabulary.read(str(tmp_path / "tokenizer.json"))
    placed = tokens_of(t)
    texts = ["rain and sun", "Rain... and, SUN!", "rainsun  xyz \u20acrain", "", "a\u0301 \u4e2d\u6587 \U0001f600"]
    texts += [text for text, _ in SAID] + [f"a{chr(c)}n" for c in range(33, 0x180)] + [" rain", "  rain", " "]
    expected = [theirs.encode(text).ids for text in texts]
    ends = [placed.begin is not None, placed.end is not None]
    found = [tokens.row(placed, text, 99) for text in texts]
    assert [row[:n] for row, n in found] == expected, (kind, ends)


def test_letters_and_signs_of_other_scripts(tmp_path: Path) -> None:
    """BERT's, for Russian and Chinese: Cyrillic capitals, letters with marks, and signs beyond the first plane,
    each a word."""
    cyrillic = sorted({unicodedata.normalize("NFD", chr(c).lower())[0] for c in range(0x400, 0x4C0)})
    ends = (0x4E00, 0x20000, 0x2A6DF, 0x2A6E0, 0x2A700, 0x2B81F, 0x2B820, 0x2B920, 0x2CEAF, 0x2FA20)
    signs = [chr(c) for c in ends]
    theirs = bert(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", *signs, *cyrillic, *(f"##{c}" for c in ("a", *cyrillic))])
    theirs.no_padding()
    theirs.no_truncation()
    theirs.save(str(tmp_path / "tokenizer.json"))
    placed = tokens_of(vocabulary.read(str(tmp_path / "tokenizer.json")))
    texts = [f"a{sign}a" for sign in signs] + [
        "\u041f\u0420\u0418\u0412\u0415\u0422 \u0401\u043b\u043a\u0430 \u0419\u043e\u0434"
    ]
    texts += [f"a{chr(c)}" for c in (*range(0x400, 0x460), *range(0x48A, 0x4C0))]
    for text in texts:
        row, n = tokens.row(placed, text, 99)
        assert row[:n] == theirs.encode(text).ids, text


def tokens_of(t: tokens.Tokens) -> tokens.Tokens:
    from mica.packing.tokens import text_tokens

    found = text_tokens(t, {"ids": (1, 99)})
    assert found is not None
    return found


def test_keras(tmp_path: Path) -> None:
    """TextVectorization: capitals of ASCII become small, marks go, unknown words are token 1, and 0 fills up.

    The tokens follow from its documentation: Keras is not installed here.
    """
    (tmp_path / "v.txt").write_text("\n[UNK]\nrain\ncant\nsun\n\u00c9t\u00e9")
    t = tokens_of(vocabulary.read(str(tmp_path / "v.txt")))
    assert tokens.row(t, "RAIN, can't \u00e9T\u00e9 sun-rain sun.", 8) == ([2, 3, 1, 1, 4, 0, 0, 0], 5)
    words = {"<pad>": 0, "<unk>": 1, "rain": 2, "sun": 3}
    (tmp_path / "v.json").write_text(json.dumps(words))
    t = tokens_of(vocabulary.read(str(tmp_path / "v.json")))
    assert tokens.row(t, "Sun sun, rain", 5) == ([3, 1, 2, 0, 0], 3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pre_tokenizer": {"type": "Digits"}}, "the pre-tokenizer Digits"),
        ({"pre_tokenizer": None}, "the pre-tokenizer none"),
        ({"normalizer": {"type": "Nmt"}}, "the normalizer Nmt"),
        (
            {"normalizer": {"type": "BertNormalizer", "lowercase": False, "strip_accents": True}},
            "a normalizer for accents",
        ),
        (
            {"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "continuing_subword_prefix": "@"}},
            "WordPiece with continuing_subword_prefix '@'",
        ),
        ({"padding": {"direction": "Left", "pad_id": 0}}, "padding before the text"),
        ({"post_processor": {"type": "Other"}}, "the post-processor Other"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    data = json.loads(bert(word_pieces()).to_str()) | change
    (tmp_path / "t.json").write_text(json.dumps(data))
    with pytest.raises(MicaError, match=text) as error:
        tokens_of(vocabulary.read(str(tmp_path / "t.json")))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["generate", "net.mica", "a"], "this model classifies texts and writes none; mica run MODEL --text TEXT"),
        (["pack", "net.onnx", "--tokens", "no.txt"], "has no token for unknown words; add ,unknown=N"),
        (["run", "net.mica"], "expected an INPUT or a --text"),
        (["pack", "net.onnx", "--tokens", "big.txt"], "the vocabulary has 203 pieces, the model's table"),
    ],
)
def test_one_line(made: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (made / "no.txt").write_text("a\nb")
    (made / "big.txt").write_text("\n".join(["[UNK]", "a", "b", *map(str, range(200))]))
    assert main([str(made / word) if "." in word else word for word in words]) == 1
    err = capsys.readouterr().err
    assert text in err and "Traceback" not in err


def test_letters_of_other_scripts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A note says which letters keep their case."""
    (tmp_path / "v.txt").write_text("<pad>\n<unk>\n\u03b4\u03b1")
    with caplog.at_level("INFO", "mica"):
        t = vocabulary.read(str(tmp_path / "v.txt"))
    assert "'\u03b4': letters beyond Latin and Cyrillic keep their case" in caplog.text
    assert tokens.row(replace(tokens_of(t)), "\u0394\u03b1 \u03b4\u03b1", 3) == ([1, 2, 0], 2)

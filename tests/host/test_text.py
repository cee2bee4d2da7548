"""Language models: `command`, which comes with the package, and `story`, of the shared models: tokens, text, figures.

Truth: calls that the grammar of `command` gives (held.tsv, hard.tsv), ONNX Runtime,
and tokens that others' programs gave.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from targets import PICO, PICO2

from mica.cli.main import main
from mica.errors import MicaError
from mica.file import codec, tokens
from mica.file.codec import ModelFile
from mica.importer import import_model, vocabulary
from mica.importer.onnx_file import file_sha256
from mica.packing import state
from mica.packing.tokens import with_tokens
from mica.run import likelihood
from mica.run.host import HostRunner, open_runner
from mica.run.text import Wish, generate

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "host_tools" / "mica" / "demo"
COMMAND = DEMO / "command.mica"
LM = ROOT.parent / "shared" / "models" / "lm"

needs_models = pytest.mark.skipif(not LM.is_dir(), reason="the folder ../shared/models/lm is missing")

# By hand: sentences as people say them.
SAID = {
    "its too dark in the office": "light office on",
    "could you dim the cellar lamp to sixty-nine": "light cellar 69",
    "hey pico set a timer for twenty two minutes": "timer 22m",
    "open the blinds in the living room please": "blind living open",
    "what is the temperature in the garden": "ask temperature garden",
    "heat the bathroom to twenty two degrees": "heat bathroom 22",
    "tell me a joke": "none",
}


@pytest.fixture(scope="module")
def command() -> HostRunner:
    return HostRunner(COMMAND.read_bytes())


def say(runner: HostRunner, sentence: str, **more: object) -> str:
    return "".join(generate(runner, Wish(sentence + "\n", 20, **more)))  # type: ignore[arg-type]


def test_command_is_what_its_command_makes(command: HostRunner) -> None:
    """The packed file of the package is of the ONNX file beside it, and has the vocabulary beside it."""
    assert command.model.metadata["source_sha256"] == file_sha256(DEMO / "command.onnx")
    packed = command.model.metadata["command"]
    assert packed == "mica pack command.onnx --calib command_calib.npz --tokens command_vocab.json,begin=0,end=0,plain"
    t = vocabulary.read(f"{DEMO / 'command_vocab.json'},begin=0,end=0,plain")
    assert command.model.tokens is not None and command.model.tokens.pieces == t.pieces
    assert command.model.tokens.flags == t.flags
    assert sum(p.stat().st_size for p in (COMMAND, DEMO / "command.onnx")) <= 600_000


@pytest.mark.parametrize("sentence", SAID)
def test_a_sentence_becomes_a_call(command: HostRunner, sentence: str) -> None:
    assert say(command, sentence) == SAID[sentence]


@needs_models
@pytest.mark.parametrize(("name", "least"), [("held", 0.99), ("hard", 0.97)])
def test_share_of_right_calls(command: HostRunner, name: str, least: float) -> None:
    """The first 300 of each; over 1,000 the README of the models says 0.998 and 0.988."""
    lines = (LM / "command" / f"{name}.tsv").read_text().splitlines()[:300]
    pairs = [line.split("\t") for line in lines]
    assert np.mean([say(command, sentence) == call for sentence, call in pairs]) >= least


def test_seeds(command: HostRunner) -> None:
    def drawn(**more: object) -> str:
        return say(command, "turn", temperature=2.0, **more)

    assert drawn(seed=1) == drawn(seed=1)
    assert len({drawn(seed=s) for s in range(6)}) > 3
    assert drawn(seed=2342946167)  # whose state would be 0
    assert drawn(seed=3, top_k=1) == say(command, "turn")
    assert "".join(generate(command, Wish("its too dark in the office\n", stop=(" on", "xx")))) == "light office"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a b c d " * 40], "more at position 0, but this model has 128 positions"),
        (["a", "--max-tokens", "128"], "a prompt of 2 tokens and 128 more at position 0"),
        (["a", "--max-tokens", "0"], "max_tokens is 1 or more"),
        (["a", "--top-k", "257"], "top_k is 1 to 256"),
        (["a", "--temperature", "11"], "temperature is 0 (the likeliest token) to 10"),
        (["a", "--temperature", "nan"], "temperature is 0"),
        (["a", "--seed", "-1"], "seed is 0 to 4294967295"),
        (["a", "--stop", ""], "stop is a text, or several, none of them empty"),
    ],
)
def test_what_is_not_allowed(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(COMMAND), *words]) == 1
    err = capsys.readouterr().err
    assert text in err and err.count("\n") == 1 and "Traceback" not in err


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(COMMAND), "its too dark in the office\\n"]) == 0
    assert capsys.readouterr().out == "light office on\n"
    assert main(["generate", str(COMMAND), "its too dark in the office\\n", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["text"] == "".join(found["pieces"]) == "light office on" and found["target"] == "host"


def test_a_model_without_tokens(command: HostRunner) -> None:
    plain = HostRunner(codec.encode(without_tokens(command.model)))
    with pytest.raises(MicaError, match="no tokens in its file; pack it with mica pack --tokens"):
        next(generate(plain, Wish("a")))


def without_tokens(model: ModelFile) -> ModelFile:
    return replace(model, tokens=None, features=0)


def test_another_vocabulary(command: HostRunner, tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps(["a", "b"]))
    t = vocabulary.read(str(tmp_path / "v.json"))
    with pytest.raises(MicaError, match="the vocabulary has 2 pieces, the model the outputs 'logits' with 256"):
        with_tokens(without_tokens(command.model), t)


def test_states_by_their_names() -> None:
    graph = import_model(DEMO / "command.onnx")
    found = state.find(graph)
    assert found == [(f"{n}{i}_cache", f"{n}{i}_after") for i in range(3) for n in "kv"]
    assert state.find(graph, found) == []
    assert state._results("past_key_values.0.key")[0] == "present.0.key"


# ---- figures


@needs_models
def test_tokens_of_the_stories() -> None:
    """SentencePiece's tokens of 25 stories, as they come with the model."""
    t = vocabulary.read(f"{LM / 'story' / 'vocab.json'},begin=1,end=1,space,merges")
    arrays = np.load(LM / "story" / "heldout_tokens.npz")
    for ids in np.split(arrays["tokens"], np.cumsum(arrays["lengths"])[:-1]):
        text = b"".join(t.pieces[i] for i in ids).decode()
        assert [1, *tokens.encode(t, text[1:]), 1][: len(ids)] == ids.tolist()


def test_nats(command: HostRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nats a token of int8 near those of ONNX Runtime, which is given its states by hand."""
    t = command.model.tokens
    assert t is not None
    lines = [[0, *tokens.encode(t, f"{sentence}\n{call}"), 0] for sentence, call in SAID.items()]
    np.savez(tmp_path / "t.npz", tokens=np.concatenate(lines), lengths=[len(line) for line in lines])
    session = onnxruntime.InferenceSession(str(DEMO / "command.onnx"))
    sizes = {i.name: i.shape for i in session.get_inputs()}
    expected = []
    for line in lines:
        states = {n: np.zeros(s, np.float32) for n, s in sizes.items() if n not in ("token", "position", "length")}
        for at, (token, following) in enumerate(pairwise(line)):
            numbers = {"token": np.array([token]), "position": np.array([at]), "length": np.array([at + 1])}
            logits, *after = session.run(None, numbers | states)
            states = dict(zip(states, after, strict=True))
            z = logits.reshape(-1).astype(np.float64)
            expected.append(np.log(np.sum(np.exp(z - z.max()))) + z.max() - z[following])
    assert main(["eval", str(COMMAND), str(tmp_path / "t.npz"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metric"] == "nll" and found["inferences"] == len(expected) and found["samples"] == len(SAID)
    assert abs(found["value"] - np.mean(expected)) < 0.05  # and that is 0.9
    assert found["perplexity"] == pytest.approx(np.exp(found["value"]))


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"tokens": [1.0, 2.0]}, "whole numbers"),
        ({"tokens": [1]}, "each text has 2 tokens or more"),
        ({"tokens": [1, 2, 3], "lengths": [2]}, "1 lengths of 2 tokens together; there are 3"),
        ({"tokens": [1, 256]}, "1 to 256; the model's are 0 to 255"),
        ({"tokens": [1] * 130}, "a text of 130 tokens; the model has 128 positions"),
    ],
)
def test_texts_that_are_none(tmp_path: Path, arrays: dict[str, list[int]], text: str, command: HostRunner) -> None:
    np.savez(tmp_path / "t.npz", **{name: np.array(a) for name, a in arrays.items()})  # type: ignore[arg-type]
    with pytest.raises(MicaError, match=text):
        data = likelihood.load(tmp_path / "t.npz")
        assert data is not None
        likelihood.nats(command, data)


# ---- boards


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385", PICO, PICO2])
def test_the_same_text_on_boards(command: HostRunner, target: str) -> None:
    """Greedy and drawn by a seed, piece by piece."""
    wishes = [Wish("could you dim the cellar lamp to sixty-nine\n", 12), Wish("please", 24, 1.5, 50, (), 12345)]
    wishes.append(Wish("It’s TOO dark — in the (Óffice), please!\n", 20))
    with open_runner(COMMAND.read_bytes(), target) as board:
        for wish in wishes:
            assert list(generate(board, wish)) == list(generate(command, wish))

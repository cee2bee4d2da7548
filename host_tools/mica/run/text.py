"""Text from a language model on any target: the same pieces that `mica.generate` gives on a board
(firmware/mica/text.py)."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from types import SimpleNamespace

import numpy as np

from mica import board_code, engine
from mica.errors import MicaError
from mica.file import tokens as vocabulary
from mica.file.codec import ModelFile
from mica.file.tokens import Tokens
from mica.link import answers
from mica.run.board import BoardRunner
from mica.run.host import HostRunner
from mica.run.runner import Runner


@dataclass(frozen=True)
class Wish:
    """A request for text. temperature: 0 (the likeliest token) to 10; top_k: 0 for all; max_tokens: None: all."""

    prompt: str
    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    stop: Sequence[str] = ()
    seed: int = 0


def tokens_of(model: ModelFile) -> Tokens:
    """The vocabulary of a model. Raises MicaError where it has none."""
    if model.tokens is None:
        raise MicaError("this model has no tokens in its file", todo="pack it with mica pack --tokens")
    if model.tokens.has("CLASSES"):
        raise MicaError("this model classifies texts and writes none", todo="mica run MODEL --text TEXT")
    return model.tokens


def run_inputs(t: Tokens, token: int, position: int) -> list[np.ndarray]:
    """Values of the inputs for one token."""
    values = {t.token: token}
    if t.position is not None:
        values[t.position] = position
    if t.length is not None:
        values[t.length] = min(position + 1, t.window)
    return [np.array([values[k]], np.int32) for k in range(len(values))]


def _sample(scores: np.ndarray, scale: float, milli: int, top_k: int, random: "array[int]") -> int:
    token, random[0] = engine.sample(scores, scale, milli, top_k, random[0])
    return token


_text = board_code.load("text", sample=_sample)


class _Model:
    """A model as the board's code sees it: one that a HostRunner has loaded, or its file alone."""

    state = b""  # that of a run is not put back

    def __init__(self, model: ModelFile, t: Tokens, runner: Runner) -> None:
        self._m, self._text, self._t = self, None, t
        self.outputs, self.tensor = model.outputs, model.tensors.__getitem__
        self.piece = t.pieces.__getitem__
        if isinstance(runner, HostRunner):
            self._loaded, self.output = runner.loaded, runner.loaded.output
            self._steps = (runner.loaded.run,)

    def tokens(self) -> SimpleNamespace:
        return SimpleNamespace(**vars(self._t) | {"count": len(self._t.pieces), "padding": None})

    def encode(self, prompt: str) -> list[int]:
        return vocabulary.encode(self._t, prompt)

    def begin(self) -> None: ...

    end = begin

    def _write(self, inputs: Sequence[Sequence[int]]) -> None:
        for k, values in enumerate(inputs):
            self._loaded.set_input(k, np.array(values, np.int32))


def generate(runner: Runner, wish: Wish) -> Iterator[str]:
    """Pieces of new text, whole characters each; a new text begins. Raises MicaError."""
    model = _Model(runner.model, tokens_of(runner.model), runner)
    try:
        text: Iterator[str] = _text.Text(model, *astuple(wish))
    except ValueError as e:
        raise MicaError(str(e)) from None
    runner.reset()
    if isinstance(runner, HostRunner):
        return text
    if isinstance(runner, BoardRunner):
        return _on_board(runner, wish)
    raise MicaError(f"{runner.target}: several boards", todo="text comes from one target")


def _on_board(runner: BoardRunner, wish: Wish) -> Iterator[str]:
    runner.board.put(wish.prompt.encode(), "_prompt")
    stop = tuple(s.encode() for s in wish.stop)
    answers.ask(
        runner.board,
        f"import mica\n_text = mica.generate(remote.model, str(_prompt, 'utf-8'), {wish.max_tokens}, "
        f"{wish.temperature!r}, {wish.top_k}, [str(s, 'utf-8') for s in {stop!r}], {wish.seed})",
    )
    while True:
        answer = answers.ask(
            runner.board,
            "from binascii import hexlify\n_p = next(_text, '')\nprint('mica:piece', "
            "str(hexlify(_p.encode()), 'ascii'))",
            total=600,
        )
        (piece,) = answer.one("piece", answers.data)
        if not piece:
            return
        yield piece.decode(errors="replace")

"""Text from a language model on any target: the same pieces that `mica.generate` gives on a board
(firmware/mica/text.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mica import engine
from mica.errors import MicaError
from mica.file import tokens as vocabulary
from mica.file.codec import ModelFile
from mica.file.tokens import Tokens
from mica.link import answers
from mica.reference.sample import HIGHEST, first_state
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


def prompt_tokens(t: Tokens, wish: Wish) -> list[int]:
    """The tokens that a model is given before it says any. Raises MicaError for what `generate` does not allow."""
    if not 0 <= wish.temperature <= HIGHEST / 1000:
        raise MicaError(f"temperature {wish.temperature:g}", todo="0 (the likeliest token) to 10 is allowed")
    if not 0 <= wish.top_k <= len(t.pieces):
        raise MicaError(f"top_k {wish.top_k}", todo=f"1 to {len(t.pieces)} is allowed, or 0 for all")
    if not 0 <= wish.seed < 1 << 32:
        raise MicaError(f"seed {wish.seed}", todo="0 to 4294967295 is allowed")
    if wish.max_tokens is not None and wish.max_tokens < 1:
        raise MicaError(f"{wish.max_tokens} tokens", todo="1 or more is allowed")
    if any(not s for s in wish.stop):
        raise MicaError("an empty stop", todo="stop is a text at which it ends")
    todo = ([] if t.begin is None else [t.begin]) + vocabulary.encode(t, wish.prompt)
    if not todo:
        raise MicaError("the prompt is empty", todo="this model has no token to begin with: give it some text")
    if t.positions and t.positions - len(todo) + 1 < (wish.max_tokens or 1):
        raise MicaError(
            f"a prompt of {len(todo)} tokens and {wish.max_tokens or 1} more",
            todo=f"this model has {t.positions} positions",
        )
    return todo


def run_inputs(t: Tokens, token: int, position: int) -> list[np.ndarray]:
    """Values of the inputs for one token."""
    values = {t.token: token}
    if t.position is not None:
        values[t.position] = position
    if t.length is not None:
        values[t.length] = min(position + 1, t.window)
    return [np.array([values[k]], np.int32) for k in range(len(values))]


def generate(runner: Runner, wish: Wish) -> Iterator[str]:
    """Pieces of new text, whole characters each; a new text begins. Raises MicaError."""
    todo = prompt_tokens(tokens_of(runner.model), wish)
    runner.reset()
    if isinstance(runner, HostRunner):
        return _on_host(runner, wish, todo)
    if isinstance(runner, BoardRunner):
        return _on_board(runner, wish)
    raise MicaError(f"{runner.target}: several boards", todo="text comes from one target")


def _on_host(runner: HostRunner, wish: Wish, todo: list[int]) -> Iterator[str]:
    t = tokens_of(runner.model)
    state = first_state(wish.seed)
    milli = int(wish.temperature * 1000 + 0.5)
    scale = runner.model.tensors[runner.model.outputs[t.output]].scale
    stops = _Stops(wish.stop)
    data = b""
    made = at = 0
    while not stops.over:
        for k, x in enumerate(run_inputs(t, todo[0], at)):
            runner.loaded.set_input(k, x)
        runner.loaded.run()
        at += 1
        if len(todo) > 1:
            todo = todo[1:]
            continue
        token, state = engine.sample(runner.loaded.output(t.output), scale, milli, wish.top_k or len(t.pieces), state)
        todo = [token]
        made += 1
        if token == t.end:
            stops.over = True
        else:
            data += t.pieces[token]
            stops.over = made == wish.max_tokens or (wish.max_tokens is None and 0 < t.positions == at)
        n = len(data) if stops.over else vocabulary.whole(data)
        text = stops.cut(vocabulary.text(data[:n]))
        data = data[n:]
        if text:
            yield text


class _Stops:
    """Cuts text at a stop, and holds back what may be the beginning of one. over: nothing more is to come."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops, self.held, self.over = stops, "", False

    def cut(self, more: str) -> str:
        text = self.held + more
        found = [at for s in self.stops if (at := text.find(s)) >= 0]
        if found:
            self.over = True
            return text[: min(found)]
        ends = [n for s in self.stops for n in range(1, len(s)) if text.endswith(s[:n])]
        keep = 0 if self.over else max(ends, default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _on_board(runner: BoardRunner, wish: Wish) -> Iterator[str]:
    runner.board.put(wish.prompt.encode(), "_prompt")
    stop = tuple(s.encode() for s in wish.stop)
    answers.ask(
        runner.board,
        "import mica\n"
        f"_text = mica.generate(remote.model, str(_prompt, 'utf-8'), {wish.max_tokens}, {wish.temperature!r}, "
        f"{wish.top_k}, "
        f"[str(s, 'utf-8') for s in {stop!r}], {wish.seed})",
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

"""Measures of how well a language model predicts text: nats a token (metric nll) and perplexity.

The data (.npz) holds `tokens`, whole numbers of all texts one behind the other, and `lengths` of the texts;
without it they are one text. The first token of a text is given, each further one is foretold;
the state is cleared before every text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.data import tables
from mica.data.calibration import read_arrays
from mica.errors import MicaError
from mica.format.values import dequantise_output
from mica.run.runner import Runner
from mica.run.text import run_inputs, tokens_of


@dataclass(frozen=True)
class Texts:
    """Texts as tokens, two at least in each."""

    texts: list[np.ndarray]

    @property
    def predictions(self) -> int:
        """Tokens that are foretold."""
        return sum(len(t) - 1 for t in self.texts)

    def first(self, n: int | None) -> Texts:
        """The first n texts; all of them where n is None."""
        return self if n is None else Texts(self.texts[:n])


def load(path: str | Path) -> Texts | None:
    """The texts of a data file; None where it has no `tokens`. Raises MicaError where they are no texts."""
    arrays = {} if tables.is_table(path) else read_arrays(path)
    if "tokens" not in arrays:
        return None
    tokens = arrays["tokens"]
    lengths = arrays.get("lengths", np.array([tokens.size]))
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise MicaError(f"{path}: 'tokens' and 'lengths' are whole numbers, in one row each")
    if len(lengths) == 0 or int(lengths.min()) < 2 or int(lengths.sum()) != len(tokens):
        raise MicaError(
            f"{path}: {len(lengths)} lengths of {int(lengths.sum())} tokens together; there are {len(tokens)}",
            todo="each text has 2 tokens or more",
        )
    return Texts(np.split(tokens.astype(np.int64), np.cumsum(lengths)[:-1]))


def nats(runner: Runner, data: Texts, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
    """-log of the probability that the model gave each token that came, [predictions]. Raises MicaError."""
    t = tokens_of(runner.model)
    scores = runner.model.tensors[runner.model.outputs[t.output]]
    found: list[float] = []
    for text in data.texts:
        low, high = int(text.min()), int(text.max())
        if low < 0 or high >= len(t.pieces):
            raise MicaError(f"'tokens' has {low} to {high}", todo=f"the model's are 0 to {len(t.pieces) - 1}")
        if t.positions and len(text) - 1 > t.positions:
            raise MicaError(f"a text of {len(text)} tokens", todo=f"the model has {t.positions} positions")
        runner.reset()
        outputs = runner.run([run_inputs(t, int(token), at) for at, token in enumerate(text[:-1])])
        for y, token in zip(outputs, text[1:], strict=True):
            z = dequantise_output(y[t.output], scores).reshape(-1).astype(np.float64)
            top = z.max()
            found.append(float(top + np.log(np.sum(np.exp(z - top))) - z[token]))
        if progress is not None:
            progress(len(found), data.predictions)
    return np.array(found)

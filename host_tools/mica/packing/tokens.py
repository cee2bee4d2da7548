"""Inputs and the output of a language model that are for tokens, as the section TOKENS has them."""

import math
from dataclasses import replace

from mica.errors import MicaError
from mica.format.codec import ModelFile
from mica.format.tokens import Tokens

_POSITION = ("pos",)  # parts of names
_LENGTH = ("len", "seq", "seen")


def with_tokens(model: ModelFile, tokens: Tokens) -> ModelFile:
    """The model with a vocabulary. Raises MicaError where its inputs and outputs are not those of a language model.

    A run takes one token. The inputs of one int32 are told apart by their names: one is a position, one the number of tokens seen;
    the one that is left is the token.
    """
    places: dict[str, int] = {}
    for k, i in enumerate(model.inputs):
        t = model.tensors[i]
        if t.dtype != "int32" or math.prod(t.dims) != 1:
            raise MicaError(
                f"--tokens: the model's input '{t.name}' is {t.dtype} {list(t.dims)}",
                todo="a run takes one token: inputs of one number, beside states (--state)",
            )
        name = t.name.lower()
        role = "position" if _any(name, _POSITION) else "length" if _any(name, _LENGTH) else "token"
        if role in places:
            other = model.tensors[model.inputs[places[role]]].name
            raise MicaError(f"--tokens: '{other}' and '{t.name}' both look like the model's {role}")
        places[role] = k
    if "token" not in places:
        raise MicaError("--tokens: the model has no input for a token", todo="name one so")
    scores = [k for k, o in enumerate(model.outputs) if math.prod(model.tensors[o].dims) == len(tokens.pieces)]
    scores = [k for k in scores if model.tensors[model.outputs[k]].dtype == "int8"]
    if not scores:
        found = ", ".join(f"'{model.tensors[o].name}' with {math.prod(model.tensors[o].dims)}" for o in model.outputs)
        raise MicaError(
            f"--tokens: the vocabulary has {len(tokens.pieces)} pieces, the model the outputs {found}",
            todo="an output with a score for each piece is expected",
        )
    tokens = replace(
        tokens,
        token=places["token"],
        position=places.get("position"),
        length=places.get("length"),
        output=scores[0],
        positions=_positions(model, places.get("position")),
        window=_window(model) if "length" in places else 0,
    )
    return replace(model, tokens=tokens)


def _any(name: str, parts: tuple[str, ...]) -> bool:
    return any(part in name for part in parts)


def _positions(model: ModelFile, place: int | None) -> int:
    """Rows of the smallest table that the position is looked up in; 0: there is none."""
    if place is None:
        return 0
    position = model.tensors[model.inputs[place]]
    made = {o for s in model.steps for o in s.outputs}
    names = {  # a reshaped position is another tensor of the same bytes
        i
        for i, t in enumerate(model.tensors)
        if i not in made and (t.dtype, t.space, t.offset) == (position.dtype, position.space, position.offset)
    }
    rows = [len(s.blobs["table"]) for s in model.steps if s.kernel == "embedding_s8" and s.inputs[0] in names]
    return min(rows, default=0)


def _window(model: ModelFile) -> int:
    """Rows of the largest state: what a number of tokens seen can be at most."""
    return max((t.dims[-2] for t in model.tensors if t.space == "state" and len(t.dims) > 1), default=1)

"""Inputs and the output that are for tokens, of a language model or of one that classifies texts,
as the section TOKENS has them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mica.errors import MicaError
from mica.file import scores
from mica.file.codec import ModelFile
from mica.file.tokens import NEVER, Tokens
from mica.format import output_groups, schema

_POSITION = ("pos",)  # parts of names
_LENGTH = ("len", "seq", "seen")
_ZEROS = ("type", "segment")
_MASK = ("mask",)
_RAREST = 10 * 1024  # costs of an unknown character beyond those of the rarest piece, as SentencePiece has it


def with_tokens(model: ModelFile, tokens: Tokens) -> ModelFile:
    """The model with a vocabulary. Raises MicaError where its inputs and outputs are for neither a language model nor
    texts to classify.

    A run of a language model takes one token. The inputs of one int32 are told apart by their names: one is a position,
    one the number of tokens seen; the one that is left is the token.
    """
    shapes = {model.tensors[i].name: model.tensors[i].dims for i in model.inputs}
    if (placed := text_tokens(tokens, shapes)) is not None:
        return _with_classes(model, placed)
    if tokens.method == "WORDPIECE":
        raise MicaError("--tokens: a vocabulary of words", todo="it is for models that classify a whole text")
    for i in model.inputs:
        t = model.tensors[i]
        if t.dtype != "int32" or math.prod(t.dims) != 1:
            raise MicaError(
                f"--tokens: the model's input '{t.name}' is {t.dtype} {list(t.dims)}",
                todo="a run takes one token: inputs of one number, beside states (--state)",
            )
    places = _places(list(shapes), _POSITION, _LENGTH)
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
        **_OF_TEXTS,
        token=places["token"],
        position=places.get("position"),
        length=places.get("length"),
        output=scores[0],
        positions=_positions(model, places.get("position")),
        window=_window(model) if "length" in places else 0,
    )
    return replace(model, tokens=tokens)


_OF_TEXTS: dict[str, Any] = {"padding": 0, "unknown": None, "framed": (None, None, None), "trouble": ""}


def text_tokens(tokens: Tokens, shapes: Mapping[str, Sequence[int]]) -> Tokens | None:
    """The vocabulary for inputs that take a whole text; None if they do not. shapes: of all inputs. Raises MicaError.

    Of inputs of as many numbers one with `mask` in its name takes the padding mask, one with `type` or `segment` zeros,
    and the one that is left the tokens.
    """
    sizes = {math.prod(shape) for shape in shapes.values()}
    if len(sizes) != 1 or sizes == {1}:
        return None
    places = _places(list(shapes), _ZEROS, _MASK)
    if tokens.trouble:
        raise MicaError(f"--tokens: {tokens.trouble}")
    begin, end, unknown = tokens.framed
    if tokens.method == "WORDPIECE" and unknown is None:
        raise MicaError(
            "--tokens: the vocabulary has no token for unknown words", todo="add ,unknown=N with its number"
        )
    costs = list(tokens.costs)
    if tokens.method == "UNIGRAM" and unknown is not None:
        costs[unknown] = min(max(costs[i] for i in tokens.listed) + _RAREST, NEVER)
    return replace(
        tokens,
        framed=(None, None, None),
        flags=tokens.flags | schema.TOKEN_FLAGS["CLASSES"],
        costs=tuple(costs),
        begin=begin,
        end=end,
        unknown=unknown,
        token=places["token"],
        position=places.get("position"),
        length=places.get("length"),
    )


def _with_classes(model: ModelFile, tokens: Tokens) -> ModelFile:
    """The model with the vocabulary of the texts that it classifies. Raises MicaError."""
    t = model.tensors[model.inputs[tokens.token]]
    if t.dtype != "int32":
        raise MicaError(
            f"--tokens: the model's input '{t.name}' takes real numbers", todo="expected tokens of an embedding"
        )
    rows = _positions(model, tokens.token)
    if 0 < rows < len(tokens.pieces):
        raise MicaError(
            f"--tokens: the vocabulary has {len(tokens.pieces)} pieces, the model's table {rows} rows",
            todo="give the vocabulary that the model was trained with",
        )
    output = output_groups.read(model)[scores.required(model)].first
    return replace(model, tokens=replace(tokens, output=output))


def _places(names: Sequence[str], position: tuple[str, ...], length: tuple[str, ...]) -> dict[str, int]:
    """The place of each role among the inputs, by parts of their names. Raises MicaError."""
    places: dict[str, int] = {}
    for k, name in enumerate(names):
        role = "position" if _any(name, position) else "length" if _any(name, length) else "token"
        if role in places:
            raise MicaError(f"--tokens: '{names[places[role]]}' and '{name}' both look like the model's {role}")
        places[role] = k
    if "token" not in places:
        raise MicaError("--tokens: the model has no input for a token", todo="name one so")
    return places


def _any(name: str, parts: tuple[str, ...]) -> bool:
    return any(part in name.lower() for part in parts)


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

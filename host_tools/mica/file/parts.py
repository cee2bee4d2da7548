"""Models in parts: files that one model was cut into, each a model of its own whose inputs others make.

The metadata `part` has five lines: "2/3 1a2b3c4d" (the second of three; CRC-32 of the file that was cut), then numbers
of tensors of that file: what this part takes (one for each of its inputs), what it gives (one for each output), the
inputs of the whole, its outputs. What crosses a boundary keeps its scale, so the parts give the bytes of the whole. The
first part has what the whole said of itself, under names that begin with "whole.".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mica.errors import MicaError
from mica.file.codec import ModelFile, TensorRecord

KEY = "part"
WHOLE = "whole."


@dataclass(frozen=True)
class Part:
    """`number` counts from 1."""

    number: int
    of: int
    whole: int
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def text(self) -> str:
        rows = (self.takes, self.gives, self.inputs, self.outputs)
        return "\n".join([f"{self.number}/{self.of} {self.whole:08x}", *(" ".join(map(str, row)) for row in rows)])


def read(model: ModelFile) -> Part | None:
    """None for a model that is whole. Raises MicaError."""
    if KEY not in model.metadata:
        return None
    try:
        first, *rows = model.metadata[KEY].split("\n")
        place, whole = first.split(" ")
        number, of = (int(v) for v in place.split("/"))
        takes, gives, inputs, outputs = (tuple(int(v) for v in row.split()) for row in rows)
        part = Part(number, of, int(whole, 16), takes, gives, inputs, outputs)
    except ValueError:
        raise _wrong(f"{model.metadata[KEY][:60]!r} says of no part which it is") from None
    if not 1 <= number <= of or len(takes) != len(model.inputs) or len(gives) != len(model.outputs):
        raise _wrong(f"{len(takes)} tensors come and {len(gives)} go; the file has {len(model.inputs)} inputs")
    return part


def _wrong(found: str) -> MicaError:
    return MicaError(f"metadata part: {found}", todo="cut the model again")


@dataclass(frozen=True)
class Chain:
    """The parts of one model in order, each with its place; of a whole model, itself."""

    models: tuple[ModelFile, ...]
    parts: tuple[Part, ...]
    whole: ModelFile  # inputs, outputs and metadata of the model that was cut; of a whole model, itself


def chain(models: Sequence[ModelFile]) -> Chain:
    """The pieces in the order of their numbers. Raises MicaError unless they are all pieces of one model."""
    found = [(read(m), m) for m in models]
    if len(models) == 1 and found[0][0] is None:
        m = models[0]
        alone = Part(1, 1, 0, tuple(m.inputs), tuple(m.outputs), tuple(m.inputs), tuple(m.outputs))
        return Chain((m,), (alone,), m)
    placed = sorted(((p, m) for p, m in found if p is not None), key=lambda pair: pair[0].number)
    if len(placed) < len(models):
        raise MicaError("a model that is whole stands among parts of another")
    parts = tuple(p for p, _ in placed)
    if {(p.of, p.whole, p.inputs, p.outputs) for p in parts} != {
        (parts[0].of, parts[0].whole, parts[0].inputs, parts[0].outputs)
    }:
        raise MicaError("these are parts of different models, or of one that was cut twice")
    if [p.number for p in parts] != list(range(1, parts[0].of + 1)):
        there = ", ".join(str(p.number) for p in parts)
        raise MicaError(f"the model has {parts[0].of} parts; these are {there}", todo="give each of them once")
    ordered = tuple(m for _, m in placed)
    return Chain(ordered, parts, _whole(ordered, parts))


def _whole(models: Sequence[ModelFile], parts: Sequence[Part]) -> ModelFile:
    """Inputs and outputs of the whole model. Raises MicaError if a piece takes a tensor that none before gives."""
    records: dict[int, TensorRecord] = {}
    there = set(parts[0].inputs)
    for m, p in zip(models, parts, strict=True):
        if not there.issuperset(p.takes):
            raise _wrong(f"part {p.number} takes what none before it gives")
        for number, t in (*zip(p.takes, m.inputs, strict=True), *zip(p.gives, m.outputs, strict=True)):
            was = records.setdefault(number, m.tensors[t])
            if (was.dtype, was.bytes, was.scale, was.zero_point) != _kind(m.tensors[t]):
                raise _wrong(f"part {p.number} has another kind of tensor {number} than those before it")
        there |= set(p.gives)
    ends = (*parts[0].inputs, *parts[0].outputs)
    if not there.issuperset(ends) or not records.keys() >= set(ends):
        raise _wrong("no part gives an output")
    facts = {k.removeprefix(WHOLE): v for k, v in models[0].metadata.items() if k.startswith(WHOLE)}
    order = list(dict.fromkeys(ends))
    return ModelFile(
        [records[n] for n in order],
        [],
        [order.index(n) for n in parts[0].inputs],
        [order.index(n) for n in parts[0].outputs],
        facts,
    )


def _kind(t: TensorRecord) -> tuple[str, int, float, int]:
    return t.dtype, t.bytes, t.scale, t.zero_point

"""Pieces of a graph as files, each a model that says which part of which it is (file/parts.py)."""

from collections.abc import Sequence

from mica.file.codec import ModelFile
from mica.file.parts import KEY, WHOLE, Part
from mica.format.schema import SCRATCH_LIMIT
from mica.packing.model import pack
from mica.packing.unpack import Unpacked
from mica.plan.cut import Cutter, Piece
from mica.plan.plan import best_plan

_OF_THE_WHOLE = ("producer", "source", "source_sha256", "command")  # every part says them


def packed(cutter: Cutter, piece: Piece, scratch_limit: int = SCRATCH_LIMIT) -> ModelFile:
    """A piece with a plan of its own; nothing is said in it of the others."""
    g, plan = best_plan(cutter.graph(piece))
    return pack(g, plan, {}, scratch_limit)


def as_parts(
    model: ModelFile, crc: int, unpacked: Unpacked, pieces: Sequence[Piece], models: Sequence[ModelFile]
) -> list[ModelFile]:
    """These models of pieces as parts of `model`, whose file has this CRC-32."""
    number = {name: t for t, name in enumerate(unpacked.names)}
    for k, (piece, part) in enumerate(zip(pieces, models, strict=True), 1):
        facts = {key: model.metadata[key] for key in _OF_THE_WHOLE if key in model.metadata}
        facts["name"] = f"{model.metadata.get('name', 'model')} {k}/{len(pieces)}"
        facts[KEY] = Part(
            k,
            len(pieces),
            crc,
            tuple(number[n] for n in piece.takes),
            tuple(number[n] for n in piece.gives),
            tuple(model.inputs),
            tuple(model.outputs),
        ).text()
        if k == 1:
            facts |= {WHOLE + key: value for key, value in model.metadata.items() if key not in _OF_THE_WHOLE}
        part.metadata = facts
    return list(models)

"""Small models that tests push onto boards: good ones with golden vectors, and one whose vectors are wrong."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
from usermod_models import small

from mica import engine
from mica.file.codec import decode, encode
from mica.run.golden import with_golden

INPUT = bytes(range(100, 164))  # what the boards are asked for


def good(seed: int, vectors: int = 2) -> bytes:
    """A model that is like no other of another seed."""
    model = small(seed)
    return encode(with_golden(model, encode(model), None, vectors))


def bad(seed: int) -> bytes:
    """The same, with an output among its golden vectors that it does not give."""
    model = decode(good(seed))
    vector = model.golden[-1]
    wrong = vector.outputs[0].copy()
    wrong.reshape(-1)[0] ^= 1
    model.golden[-1] = dataclasses.replace(vector, outputs=[wrong])
    return encode(model)


def answer(data: bytes) -> int:
    """CRC-32 of the model's output for INPUT, by this computer."""
    loaded = engine.load(data)
    loaded.set_input(0, np.frombuffer(INPUT, np.int8).reshape(1, 8, 8, 1))
    loaded.run()
    return zlib.crc32(np.ascontiguousarray(loaded.output(0)).tobytes())


# Prints whether the model at PATH was copied to RAM, and the CRC-32 of its output.
ASK = f"""
import binascii, gc, mica
gc.collect()
_m = mica.Model("PATH")
_m.input(0)[:] = {INPUT!r}
_m.run()
print(_m.copied, binascii.crc32(_m.output(0)))
_m = None
"""

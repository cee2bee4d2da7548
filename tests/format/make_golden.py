"""Write golden/v1.1.mica, a file of format version 1.1 that every later reader has to run.
The files of golden/ are kept
for ever: run this only before the version's first release, and never to make a failing test pass. (v1.mica is what an
earlier form of this script wrote, with format 1.0.)

    PYTHONPATH=host_tools:tests/format python tests/format/make_golden.py
"""

import zlib
from pathlib import Path

import numpy as np
from rich_model import rich_model

from mica.file import codec
from mica.file.codec import GoldenVector, ModelFile
from mica.reference.executor import ReferenceModel

FILE = Path(__file__).parent / "golden" / "v1.1.mica"


def streaming_model() -> ModelFile:
    """The rich model, with its state read as well as written: each run halves it, and adds something new."""
    model = rich_model(seed=2027)
    names = [t.name for t in model.tensors]
    add = next(s for s in model.steps if s.name == "add")
    add.inputs = (add.inputs[0], names.index("memory"))
    return model


def main() -> None:
    """Three vectors, runs that follow one another, with outputs and checksums of layers by the numpy reference."""
    model = streaming_model()
    model.golden = []
    reference = ReferenceModel(codec.encode(model))
    rng = np.random.default_rng(1)
    for i in range(3):
        x = rng.integers(-128, 128, model.tensors[0].dims, dtype=np.int8)
        x = np.where(x < 0, np.int8(-128), np.int8(127)) if i == 2 else x
        reference.set_input(0, x)
        crcs = []
        for k, step in enumerate(model.steps):
            reference.run_step(k)
            crcs.append(zlib.crc32(reference.tensor(step.outputs[0]).tobytes()))
        model.golden.append(GoldenVector([x], [reference.output(k) for k in range(len(model.outputs))], crcs))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(codec.encode(model))
    print(f"{FILE}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

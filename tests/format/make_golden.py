"""Write golden/v1.mica, the file of format version 1 that every later reader has to run. It is kept for ever: run this
only before the format's first release, and never to make a failing test pass.

    PYTHONPATH=host_tools:tests/format python tests/format/make_golden.py
"""

from pathlib import Path

import numpy as np
from rich_model import rich_model

from mica.format import codec
from mica.format.codec import GoldenVector
from mica.reference.executor import ReferenceModel

FILE = Path(__file__).parent / "golden" / "v1.mica"


def main() -> None:
    """Three vectors, with the outputs of the numpy reference."""
    model = rich_model(seed=2026)
    model.golden = []
    reference = ReferenceModel(codec.encode(model))
    rng = np.random.default_rng(1)
    for i in range(3):
        x = rng.integers(-128, 128, model.tensors[0].dims, dtype=np.int8)
        x = np.where(x < 0, np.int8(-128), np.int8(127)) if i == 2 else x
        reference.set_input(0, x)
        reference.run()
        model.golden.append(GoldenVector([x], [reference.output(k) for k in range(len(model.outputs))]))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(codec.encode(model))
    print(f"{FILE}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

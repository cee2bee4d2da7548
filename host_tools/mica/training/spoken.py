"""The network of spoken words, for heads: its embedding suits words of any language, so few clips teach new ones.

python -m mica.training.spoken spoken.onnx        then mica pack --embedding (docs/teach.md)
"""

import sys
from pathlib import Path

import numpy as np

from mica import whole
from mica.errors import MicaError
from mica.training import families, onnx_file


def write(path: Path) -> None:
    """Write it as .onnx for a second of sound, with a last layer by chance. Raises MicaError."""
    plan = next(p for p in families.plans("sound", ()) if p.family in families.SPOKEN)
    network = plan.build(np.random.default_rng(0), (49, 20), 2, np.zeros(1), np.ones(1))
    whole.write(path, onnx_file.model(network, (49, 20), ("a", "b")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected one file: python -m mica.training.spoken spoken.onnx")
    try:
        write(Path(sys.argv[1]))
    except MicaError as e:
        sys.exit(str(e))

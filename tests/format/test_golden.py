"""Every released version of the format left a file here. All of them load and give their stored bytes, for ever."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from mica import engine
from mica.format import codec
from mica.reference.executor import ReferenceModel

FILES = {"v1.mica": "5fa8528cfaf50374ee28b3c14af9ad0e3d1a7d9a98b52903cc65eeb45b319789"}


@pytest.mark.parametrize("name", FILES)
def test_golden(name: str) -> None:
    data = (Path(__file__).parent / "golden" / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == FILES[name], "a golden file never changes"
    file = codec.decode(data)
    assert len(file.golden) == 3 and len(file.kernels) == 9
    assert engine.AVAILABLE, "the C engine is not built: pip install -e ."
    for model in (ReferenceModel(data), engine.load(data)):
        for vector in file.golden:
            for i, x in enumerate(vector.inputs):
                model.set_input(i, x)
            model.run()
            for i, y in enumerate(vector.outputs):
                np.testing.assert_array_equal(model.output(i), y)
                assert len(np.unique(y)) > 1, "an output that says something"

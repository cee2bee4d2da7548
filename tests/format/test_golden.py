"""Every released version of the format left a file here. All of them load and give their stored bytes, for ever."""

import hashlib
import zlib
from pathlib import Path

import numpy as np
import pytest

from mica import engine
from mica.file import codec
from mica.reference.executor import ReferenceModel

FILES = {
    "v1.mica": ((1, 0), "5fa8528cfaf50374ee28b3c14af9ad0e3d1a7d9a98b52903cc65eeb45b319789"),
    "v1.1.mica": ((1, 1), "d3ee8de2fbc1356407827cd45c941f72fad6b58a3e84a40e127fb32cecc48ea5"),
}


def read(name: str) -> bytes:
    return (Path(__file__).parent / "golden" / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_golden(name: str) -> None:
    data = read(name)
    version, digest = FILES[name]
    assert hashlib.sha256(data).hexdigest() == digest, "a golden file never changes"
    file = codec.decode(data)
    assert file.version == version
    assert len(file.golden) == 3 and len(file.kernels) == 9
    assert all(len(v.layer_crcs) == (len(file.steps) if version > (1, 0) else 0) for v in file.golden)
    assert engine.AVAILABLE, "the C engine is not built: pip install -e ."
    for model in (ReferenceModel(data), engine.load(data)):
        for vector in file.golden:
            for i, x in enumerate(vector.inputs):
                model.set_input(i, x)
            crcs = []
            for k, step in enumerate(file.steps):
                model.run_step(k)
                crcs.append(zlib.crc32(model.tensor(step.outputs[0]).tobytes()))
            assert vector.layer_crcs in ([], crcs)
            for i, y in enumerate(vector.outputs):
                np.testing.assert_array_equal(model.output(i), y)
                assert len(np.unique(y)) > 1, "an output that says something"


def test_the_state_says_something() -> None:
    """The vectors of 1.1 are runs that follow one another: without the state of those before, the last is another."""
    data = read("v1.1.mica")
    file = codec.decode(data)
    model = engine.load(data)
    last = file.golden[-1]
    for i, x in enumerate(last.inputs):
        model.set_input(i, x)
    model.run()
    assert not all(np.array_equal(model.output(i), y) for i, y in enumerate(last.outputs))

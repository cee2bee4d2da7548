"""mica.engine: the C engine and its numpy stand-in behind one interface."""

import importlib.machinery
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich_model import rich_model

from mica import engine
from mica.engine import native
from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.reference.executor import ReferenceModel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["C", "numpy"])
def model(request: pytest.FixtureRequest) -> engine.LoadedModel:
    data = codec.encode(rich_model())
    if request.param == "numpy":
        return ReferenceModel(data)
    assert engine.AVAILABLE, "the C engine is not built: pip install -e ."
    return engine.load(data)


def test_layer_by_layer() -> None:
    """Every step's output is equal, over runs that carry state along."""
    data = codec.encode(rich_model())
    reference, native = ReferenceModel(data), engine.load(data)
    assert reference.info == native.info
    rng = np.random.default_rng(3)
    file = codec.decode(data)
    for _ in range(20):
        x = rng.integers(-128, 128, (1, 6, 5, 2), dtype=np.int8)
        for m in (reference, native):
            m.set_input(0, x)
        for i, s in enumerate(file.steps):
            reference.run_step(i)
            native.run_step(i)
            np.testing.assert_array_equal(native.tensor(s.outputs[0]), reference.tensor(s.outputs[0]), s.name)


def test_interface(model: engine.LoadedModel) -> None:
    x = np.arange(60, dtype=np.int8)
    assert model.steps == 9 and model.info["n_inputs"] == 1 and model.info["n_outputs"] == 2
    np.testing.assert_array_equal(model.output(0), np.full((1, 8), 7))  # state begins at its zero point
    model.set_input(0, x.reshape(6, 5, 2))  # elements count, not the batch
    model.run()
    first = [model.output(i) for i in range(2)]
    assert first[0].shape == (1, 8) and first[1].dtype == np.int8
    assert not np.array_equal(first[0], np.full((1, 8), 7))
    before = first[1].copy()
    first[1][...] = 99
    np.testing.assert_array_equal(model.output(1), before)  # a copy
    model.reset_state()
    np.testing.assert_array_equal(model.output(0), np.full((1, 8), 7))
    np.testing.assert_array_equal(model.tensor(7), codec.decode(codec.encode(rich_model())).tensors[7].values)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m.set_input(1, np.zeros(60, np.int8)), "input 1: the model has 1"),
        (lambda m: m.set_input(-1, np.zeros(60, np.int8)), "input -1"),
        (
            lambda m: m.set_input(0, np.zeros(60)),
            r"input 0 \(image\): found float64 \[60\], expected int8 \[1, 6, 5, 2\]",
        ),
        (lambda m: m.set_input(0, np.zeros(61, np.int8)), r"found int8 \[61\]"),
        (lambda m: m.set_input(0, np.zeros(15, np.int32)), "found int32"),
        (lambda m: m.output(2), "output 2: the model has 2"),
        (lambda m: m.output(-1), "output -1"),
        (lambda m: m.tensor(13), "tensor 13: the model has 13"),
        (lambda m: m.tensor(-1), "tensor -1"),
        (lambda m: m.run_step(9), "step 9: the model has 9"),
        (lambda m: m.run_step(-1), "step -1"),
    ],
)
def test_bad_calls(model: engine.LoadedModel, call: object, text: str) -> None:
    assert callable(call)
    with pytest.raises(MicaError, match=text):
        call(model)


def test_load_refuses() -> None:
    data = codec.encode(rich_model())
    for bad, text in (
        (data[:500], "cut short"),
        (b"", "header"),
        (b"abcd" * 50, "not a .mica"),
        (data[:-1] + b"x", "checksum"),
    ):
        with pytest.raises(codec.FormatError, match=text):
            engine.load(bad)
        with pytest.raises(codec.FormatError):
            ReferenceModel(bad)


@pytest.mark.parametrize("good_plan", [True, False])
def test_a_bad_memory_plan_shows(good_plan: bool) -> None:
    """Two live tensors on the same bytes: the C engine differs from the reference, which goes by tensor ids."""
    names = {"x": 0, "a": 16, "b": 32, "c": 48 if good_plan else 16, "y": 64}  # a is still to be read when c is written
    tensors = [TensorRecord(n, "int8", (4,), offset=at) for n, at in names.items()]
    table = {"table": (np.arange(-128, 128) // 2 + 5).astype(np.int8)}
    steps = [StepRecord(names, "lut_s8", (i,), (i + 1,), {}, table) for i, names in enumerate(("xa", "ab", "bc"))]
    p = {"mult_a": 1, "mult_b": 1, "act_min": -128, "act_max": 127}
    steps.append(StepRecord("sum", "add_s8", (1, 3), (4,), p))
    data = codec.encode(ModelFile(tensors, steps, [0], [4]))
    outputs = []
    for m in (ReferenceModel(data), engine.load(data)):
        m.set_input(0, np.array([-100, 0, 50, 100], np.int8))
        m.run()
        outputs.append(m.output(0))
    assert np.array_equal(*outputs) == good_plan


def test_without_the_extension() -> None:
    """No C compiler at installation: load() runs in numpy and NAME says so."""
    code = """
import sys
sys.modules["mica.engine._engine"] = None
from mica import engine
from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from rich_model import rich_model
m = engine.load(codec.encode(rich_model()))
m.run()
print(engine.AVAILABLE, engine.NAME, type(m).__name__)
"""
    path = f"import sys; sys.path[:0] = [{str(ROOT / 'host_tools')!r}, {str(Path(__file__).parent)!r}]\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=False)
    assert done.stdout == "False numpy reference (no C compiler when mica was installed) ReferenceModel\n", done.stderr


def test_a_library_of_an_older_mica_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without the functions, and a file that is no library, are as good as none."""
    monkeypatch.setattr(native, "SIGNATURES", native.SIGNATURES | {"mica_of_tomorrow": (None, ())})
    assert native.find() is None
    monkeypatch.undo()
    assert native.find() is not None
    spec = importlib.machinery.ModuleSpec("mica.engine._engine", None, origin=str(tmp_path / "none.so"))
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: spec)
    assert native.find() is None


def test_random_models_do_not_leak() -> None:
    """Load and refuse many times: memory stays where it is."""
    import resource

    data = codec.encode(rich_model())
    bad = codec.with_crc(data[:200] + b"\xff" * 8 + data[208:])
    use = []
    for _ in range(3):
        for _ in range(1500):
            engine.load(data).run()
            with pytest.raises(codec.FormatError):
                engine.load(bad)
        use.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert use[2] - use[1] < 2048, f"kilobytes in use: {use}"

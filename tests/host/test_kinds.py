"""The first bytes of a model file tell its kind; a file of a wrong kind is refused with the line that converts it."""

from __future__ import annotations

import io
import pickle
import zipfile
import zlib
from pathlib import Path

import pytest
from tflite_nets import NETS

from mica.cli.main import main
from mica.errors import MicaError
from mica.importer import import_model, kinds


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        for name in names:
            z.writestr(name, "x" * 40)
    return file.getvalue()


def legacy_torch() -> bytes:
    """A file as torch.save wrote it before PyTorch 1.6: its magic number, pickled with protocol 2."""
    return pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2) + pickle.dumps(1001, protocol=2)


FILES = {
    "torch": (archive("archive/data.pkl", "archive/version"), "is a PyTorch file", "torch.onnx.export"),
    "torchscript": (archive("net/data.pkl", "net/code/x.py"), "is a PyTorch file", "torch.onnx.export"),
    "old torch": (legacy_torch(), "is a PyTorch file", "torch.onnx.export"),
    "keras": (archive("metadata.json", "config.json", "model.weights.h5"), "is a Keras file", "from_keras_model"),
    "h5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "is an HDF5 file", "from_keras_model"),
    "pickle": (pickle.dumps({"a": list(range(99))}), "is a Python pickle", "skl2onnx.to_onnx"),
    "old pickle": (pickle.dumps({"a": 1}, protocol=2), "is a Python pickle", "skl2onnx.to_onnx"),
    "joblib compressed": (zlib.compress(pickle.dumps([1] * 99)), "is a Python pickle", "skl2onnx.to_onnx"),
    "npz": (archive("x.npy"), "is a file of NumPy arrays", "--calib"),
    "mica": (b"MICA" + bytes(60), "is a .mica file, packed already", "info, run, eval"),
    "npy": (b"\x93NUMPY\x01\x00" + bytes(60), "is a file of NumPy arrays", "--calib"),
    "safetensors": (
        (72).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'.ljust(72) + bytes(4),
        "is a safetensors file",
        "torch.onnx.export",
    ),
    "gguf": (b"GGUF" + bytes(60), "is a GGUF file", "ONNX"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("name", ("net.onnx", "net.tflite", "net"))
def test_other_files(tmp_path: Path, kind: str, name: str) -> None:
    content, what, line = FILES[kind]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MicaError) as e:
        import_model(path)
    text = str(e.value)
    assert text.startswith(f"{path}: {what}")
    assert line in text
    assert "\n" not in text


def test_the_name_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(NETS["classifier"]())
    assert kinds.read_as(path) == "tflite"
    assert import_model(path).outputs == ["Identity"]


@pytest.mark.parametrize("length", (0, 1, 3, 7, 8, 20))
def test_a_file_that_is_nothing(tmp_path: Path, length: int) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(NETS["classifier"]()[:length])
    with pytest.raises(MicaError) as e:
        import_model(path)
    assert "damaged" in str(e.value) if length >= 8 else "not an ONNX" in str(e.value) or "not a valid" in str(e.value)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(MicaError, match="is a folder"):
        import_model(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(MicaError, match="from_saved_model"):
        import_model(tmp_path)


def test_pack_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.h5"
    path.write_bytes(FILES["h5"][0])
    assert main(["pack", str(path)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"mica: error: {path}: is an HDF5 file")
    assert list(tmp_path.iterdir()) == [path]

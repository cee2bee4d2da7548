"""The kind of a model's file, recognised by its first bytes; the file's name may say anything.

`read_as` gives "onnx" or "tflite" for what mica reads. Another kind is refused with the line that converts it.
"""

from dataclasses import dataclass
from pathlib import Path

from mica.errors import MicaError, reading
from mica.format.schema import MAGIC
from mica.importer.tflite import schema

HEAD = 512  # bytes that tell

_TORCH = 'torch.onnx.export(model, example_input, "net.onnx")'
_KERAS = 'tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model("{name}")).convert() gives a .tflite'
_PICKLE = 'To convert a model of scikit-learn: skl2onnx.to_onnx(model, X[:1].astype("float32")); of PyTorch: ' + _TORCH


@dataclass(frozen=True)
class Kind:
    """A kind of file that mica does not read, and the line that makes one that it does."""

    name: str
    convert: str


TORCH = Kind("a PyTorch file", "To convert it, in Python, with the model's class: " + _TORCH)
KERAS = Kind("a Keras file", "To convert it, in Python: " + _KERAS)
HDF5 = Kind("an HDF5 file, as Keras writes them", "To convert it, in Python: " + _KERAS)
PICKLE = Kind("a Python pickle, as joblib and scikit-learn write them", _PICKLE)
ARCHIVE = Kind("a zip archive", "Give the .onnx or .tflite file inside")
NUMPY = Kind("a file of NumPy arrays", "--calib, run and eval take it; the model is another file")
PACKED = Kind("a .mica file, packed already", "mica info, run, eval and push take it as it is")
SAVED = Kind(
    "a TensorFlow SavedModel",
    'To convert it, in Python: tf.lite.TFLiteConverter.from_saved_model("{name}").convert() gives a .tflite',
)

SAFETENSORS = Kind(
    "a safetensors file: weights without a network", "To convert it, in Python, with the model's class: " + _TORCH
)

# First files of archives that torch.save, torch.jit.save and torch.export.save write.
TORCH_FILES = (b"data.pkl", b"constants.pkl", b"version", b"byteorder", b".format_version", b"archive_format")

_STARTS = (
    (MAGIC, PACKED),
    (b"\x89HDF\r\n\x1a\n", HDF5),
    # torch.save before PyTorch 1.6: a pickle that begins with this number.
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", TORCH),
    *((bytes((0x80, protocol)), PICKLE) for protocol in range(2, 6)),
    # joblib.dump(compress=...): zlib, gzip, bz2, xz, lzma and lz4.
    *(
        (start, PICKLE)
        for start in (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"]\x00\x00")
    ),
    (b"\x04\x22\x4d\x18", PICKLE),
    (b"\x93NUMPY", NUMPY),
    (b"GGUF", Kind("a GGUF file of a language model", "mica takes networks as ONNX files")),
)


def read_as(path: str | Path) -> str:
    """ "onnx" or "tflite". Raises MicaError where it is another kind of file, or none."""
    path = Path(path)
    if not path.exists():
        raise MicaError(f"{path}: no such file")
    if path.is_dir():
        if (path / "saved_model.pb").exists():
            raise _refusal(path, SAVED)
        raise MicaError(f"{path}: is a folder", todo="give the .onnx or .tflite file")
    with reading(path), open(path, "rb") as f:
        head = f.read(HEAD)
    if head[4:8] == schema.IDENTIFIER:
        return "tflite"
    kind = _other(head)
    if kind is not None:
        raise _refusal(path, kind)
    return "onnx"


def _refusal(path: Path, kind: Kind) -> MicaError:
    line = kind.convert.format(name=path.name)
    return MicaError(f"{path}: is {kind.name}", todo=f"mica packs .onnx and .tflite files. {line}")


def _other(head: bytes) -> Kind | None:
    if head.startswith(b"PK\x03\x04"):
        return _archive(head)
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    return SAFETENSORS if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32 else None


def _archive(head: bytes) -> Kind:
    """A zip archive, by the name of its first file, which stands at byte 30."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name in (b"metadata.json", b"config.json", b"model.weights.h5"):
        return KERAS
    if name.rsplit(b"/", 1)[-1] in TORCH_FILES:
        return TORCH
    return NUMPY if name.endswith(b".npy") else ARCHIVE

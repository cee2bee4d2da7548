"""Hostile files of up to 1 MB for the commands that read one, and what a command takes for them.

python tests/host/hostile_files.py [SEED [ROUNDS]]        tries all kinds with other seeds, and prints what is wrong
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import resource
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mica.cli.main import main
from mica.format.records import with_crc
from mica.learn import Head, digest

MOST_BYTES, MOST_SECONDS = 300 << 20, 10.0
LARGEST = 1 << 20
OWN = 100 << 20  # bytes of a command with all that it imports: the process that is forked may be larger
DEMO = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo"


@dataclass(frozen=True)
class Tried:
    """The end of a command: exit code, seconds of CPU, largest resident memory in bytes, and the text on stderr."""

    code: int
    seconds: float
    bytes: int
    err: str

    @property
    def faults(self) -> list[str]:
        found = []
        if self.code not in (0, 1, 2):
            found.append(f"exit {self.code}")
        if "Traceback" in self.err or "a bug in mica" in self.err or "Exception ignored" in self.err:
            found.append("a traceback")
        if self.bytes > MOST_BYTES:
            found.append(f"{self.bytes >> 20} MB")
        if self.seconds > MOST_SECONDS:
            found.append(f"{self.seconds:.1f} s")
        if any(len(line) > 4200 for line in self.err.splitlines()):
            found.append("a long line")
        return found


def tried(*words: object) -> Tried:
    """Run a command in a process of its own, whose memory and CPU are counted.
    It is ended at the double of what it may take."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as err:
        before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        if not (pid := os.fork()):
            code = 99
            try:
                os.dup2(err.fileno(), 2)
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115
                sys.stderr = os.fdopen(2, "w", errors="backslashreplace")
                resource.setrlimit(resource.RLIMIT_CPU, (int(2 * MOST_SECONDS), int(2 * MOST_SECONDS)))
                code = main([str(w) for w in words])
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status, used = os.wait4(pid, 0)
        text = os.pread(err.fileno(), 1 << 20, 0).decode(errors="replace")
    return Tried(
        os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, OWN + (used.ru_maxrss << 10) - before, text
    )


def header(shape: tuple[int, ...], descr: str = "<f4", version: int = 1) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin1", "replace")


def archive(members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how, compresslevel=9 if how == zipfile.ZIP_DEFLATED else None) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return made.getvalue()


def npz(**arrays: object) -> bytes:
    made = io.BytesIO()
    np.savez_compressed(made, **{k: np.asarray(a) for k, a in arrays.items()})  # type: ignore[arg-type]
    return made.getvalue()


def zeros(shape: tuple[int, ...], descr: str, megabytes: int) -> bytes:
    return header(shape, descr) + bytes(megabytes << 20)


def arrays(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Archives and arrays; `image` and `x` are names of inputs."""
    n = chance.randrange(20, 240)
    name = chance.choice(("x", "image", "y", "scale"))
    yield "bomb.npz", archive({f"{name}.npy": zeros((n << 14, 1, 8, 8), "|i1", n), "y.npy": header((1,)) + bytes(4)})
    yield "bomb-of-another-shape.npz", archive({"x.npy": zeros((n << 20,), "|i1", n)})
    yield "bombs.npz", archive({f"a{k}.npy": zeros((20 << 20,), "|i1", 20) for k in range(12)})
    small = chance.randrange(5, 25)
    x = np.zeros((small << 12, 1, 8, 8), np.int8)
    yield "many-samples.npz", npz(x=x, y=np.zeros(len(x), np.int64))
    yield "many-series.npz", npz(x=np.zeros((2, 1 << 21), np.int8), y=[0, 1], metric="auc", window=64, stride=1)
    yield "long-windows.npz", npz(x=np.zeros((2, 1 << 21)), y=[0, 1], metric="auc", window=1 << 20, stride=1)
    yield "many-arrays.npz", archive({f"{k}.npy": header((1,)) + bytes(4) for k in range(5000)}, zipfile.ZIP_STORED)
    yield "long-names.npz", archive({f"{k}" + 60000 * "n" + ".npy": header((1,)) + bytes(4) for k in range(5)})
    yield "lzma.npz", archive({"x.npy": zeros((64, 1, 8, 8), "<f4", 1)}, zipfile.ZIP_LZMA)
    huge = (chance.choice((10**12, 2**31, 2**63, 10**30, -5)), *chance.choice(((1, 8, 8), (0,), (2**40,))))
    for version in (1, 2, 3):
        yield (
            f"huge-{version}.npy",
            header(huge, chance.choice(("<f4", "|S0", "<U0", "|V0", "|b1")), version) + bytes(99),
        )
    for descr in ("<M8[s]", "<c8", "|O", "<f2", ">f8", "|S5", "<U5", "|b1", "<u8", "<f16"):
        size = np.dtype(descr).itemsize if descr != "|O" else 8
        yield f"type-{descr[1]}{size}.npy", header((3, 1, 8, 8), descr) + chance.randbytes(192 * size)
    yield (
        "structure.npy",
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': [('a', '<f4'), ('b', '<i8', (3,))], 'fortran_order': False, 'shape': (4, 1, 8, 8), }".ljust(117)
        + b"\n"
        + bytes(9000),
    )
    for text in (
        b"(" * 9000,
        b"{'descr': " + b"[" * 500,
        b"\x00" * 90,
        b"{'descr': '<f4', 'fortran_order': 0, 'shape': 5}",
    ):
        yield "header.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    good = {"x": np.zeros((4, 1, 8, 8), np.float32), "y": np.array([0, 1, 2, 3])}
    odd: list[object] = [
        "abc",
        [1, 2],
        2**62,
        -1,
        np.nan,
        np.inf,
        1e38,
        [],
        [[1.5] * 8],
        1j,
        True,
        b"x",
        np.zeros((4, 9000)),
    ]
    for key in ("scale", "offset", "window", "stride", "metric", "y", "rate", "tokens", "lengths", "x", "image"):
        for value in chance.sample(odd, 4):
            yield f"odd-{key}.npz", npz(**good | {key: value})
    yield "labels.npz", npz(**good | {"y": [0, 1, 2, 2**62]})
    whole = npz(**good | {"scale": 0.1, "offset": 1.0})
    for _ in range(12):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        yield "damaged.npz", bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
    yield "pk.npz", b"PK" + chance.choice((b"", b"\x03\x04", b"\x05\x06" + bytes(18), chance.randbytes(900)))


def tables(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    half = LARGEST // 2
    yield "one-column.csv", b"1\n" * half
    yield "one-row.csv", b"1," * half
    yield "empty-cells.csv", b",," * (half // 65) + b"\n" + (b"," * 64 + b"\n") * (half // 65)
    yield "quotes.csv", b'"' * LARGEST
    yield "open-quote.csv", b'1,"' + b"x\n" * half
    yield "long-cell.csv", b"1" * (LARGEST - 9)
    yield "long-numbers.csv", (b"9" * 4000 + b"\n") * 200
    yield "words.csv", b"".join(b"w%d,1\n" % k for k in range(90000))
    yield "sixty-four.csv", (b"0.5," * 63 + b"1\n") * (LARGEST // 254)
    yield "mixed.csv", b"\n".join(chance.randbytes(chance.randrange(40)).replace(b"\n", b",") for _ in range(500))
    yield "ends.csv", b"\r" * LARGEST
    yield "times.csv", b"2020-01-01 10:00:00,1\n" * 40000
    yield "sep.csv", b"sep=\xef\xbb\xbf\n1\n"


def wave(rate: int, data: bytes, channels: int = 1, bits: int = 16, form: int = 1, size: int | None = None) -> bytes:
    width = channels * bits // 8
    fmt = struct.pack("<HHIIHH", form, channels, rate & 0xFFFFFFFF, rate * width & 0xFFFFFFFF, width & 0xFFFF, bits)
    chunk = b"data" + struct.pack("<I", len(data) if size is None else size) + data
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + chunk
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def sounds(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    import soundfile

    noise = np.random.default_rng(chance.randrange(99)).integers(-9000, 9000, 8000).astype("<i2").tobytes()
    for rate in (0, 1, 7, 999, 1000, 1001, 192000, 2**31 - 1, 2**32 - 1, chance.randrange(1, 9000)):
        yield f"rate-{rate}.wav", wave(rate, noise * 8)
    yield "slow.wav", wave(1000, bytes(LARGEST - 100))
    yield "long.wav", wave(8000, bytes(LARGEST - 100))
    yield "bytes.wav", wave(8000, bytes(LARGEST - 100), bits=8)
    yield "channels.wav", wave(16000, noise * 30, channels=chance.choice((2, 255, 1024, 65535)))
    yield "floats.wav", wave(16000, np.full(4000, np.nan, "<f4").tobytes(), bits=32, form=3)
    yield "large.wav", wave(16000, np.full(4000, 1e300, "<f8").tobytes(), bits=64, form=3)
    yield "form.wav", wave(16000, noise, form=chance.choice((2, 0x11, 0x31, 0x55, 0xFFFE)), bits=chance.choice((4, 16)))
    yield "piped.wav", wave(16000, noise, size=0)
    yield "chunks.wav", b"RIFF\xff\xff\xff\xffWAVE" + b"junk\x02\x00\x00\x00xx" * 60000
    for kind, subtype in (("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS")):
        made = io.BytesIO()
        with soundfile.SoundFile(made, "w", chance.choice((8000, 48000)), 1, subtype, format=kind) as sound:
            for _ in range(chance.choice((16, 256, 768 if kind == "FLAC" else 128))):
                sound.write(np.zeros(1 << 16, np.int16))
        yield f"silence.{kind.lower()}", made.getvalue()[:LARGEST]
    whole = wave(16000, noise)
    for _ in range(25):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            damaged[chance.randrange(60)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        yield "damaged.wav", bytes(damaged)


def pictures(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    from PIL import Image

    def saved(mode: str, size: tuple[int, int], kind: str, **more: object) -> bytes:
        made = io.BytesIO()
        Image.new(mode, size).save(made, kind, **more)
        return made.getvalue()

    side = chance.choice((2000, 4000, 4096, 4500, 8000))
    for mode in ("1", "L", "RGB", "RGBA", "P", "I;16"):
        yield f"flat-{mode.strip(';')}.png", saved(mode, (side, side), "PNG")
    yield "flat.gif", saved("P", (side, side), "GIF")
    yield "flat.jpg", saved("RGB", (side, side), "JPEG", quality=1)
    yield "flat.webp", saved("RGBA", (4000, 4000), "WEBP")
    yield "wide.png", saved("L", (60000, 30), "PNG")
    small = [Image.new("P", (8, 8), k) for k in range(200)]
    made = io.BytesIO()
    small[0].save(made, "GIF", save_all=True, append_images=small[1:])
    yield "frames.gif", made.getvalue()
    whole = saved("RGB", (40, 40), "PNG")
    for _ in range(10):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        yield "damaged.png", bytes(damaged)


def model_of(nodes: list[onnx.NodeProto], inits: list[TensorProto], x: list[int], y: list[int] | None = None) -> bytes:
    """Return a graph from `image` of shape x to `out` of shape y, by default x."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("image", x), ("out", y or x))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def models(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    node = helper.make_node
    w = numpy_helper.from_array(np.ones((8, 1, 3, 3), np.float32), "w")
    conv = node("Conv", ["image", "w"], ["out"], pads=[1] * 4)
    for side in (64, 1000, 2000, 4096, 10**6):
        yield f"conv-{side}.onnx", model_of([conv], [w], [1, 1, side, side], [1, 8, side, side])
    deep = [node("Conv", [f"a{k}" if k else "image", "v"], [f"a{k + 1}"], pads=[1] * 4) for k in range(60)]
    v = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32) / 50, "v")  # 500 MB, if all were kept
    yield "convs.onnx", model_of([*deep, node("Relu", ["a60"], ["out"])], [v], [1, 8, 128, 128])
    n = chance.choice((500, 2000))
    chain = [
        node(chance.choice(("Relu", "Neg", "Sigmoid")), [f"a{k}" if k else "image"], [f"a{k + 1}"]) for k in range(n)
    ]
    yield "chain.onnx", model_of([*chain, node("Relu", [f"a{n}"], ["out"])], [], [1, 8])
    same = [node("Identity", [f"a{k}" if k else "image"], [f"a{k + 1}"]) for k in range(5000)]
    yield "identities.onnx", model_of([*same, node("Relu", ["a5000"], ["out"])], [], [1, 8])
    wide = [node("Relu", ["image"], [f"a{k}"]) for k in range(1500)]
    wide.append(node("Concat", [f"a{k}" for k in range(1500)], ["out"], axis=1))
    yield "concat.onnx", model_of(wide, [], [1, 4], [1, 6000])
    parts = [
        node("Split", ["image"], [f"a{k}" for k in range(600)], axis=1),
        node("Concat", [f"a{k}" for k in range(600)][::-1], ["out"], axis=1),
    ]
    yield "split.onnx", model_of(parts, [], [1, 600])
    yield "long-name.onnx", model_of([node("Relu", ["image"], ["out"], 400_000 * "n")], [], [1, 8])
    yield "long-operator.onnx", model_of([node(400_000 * "O", ["image"], ["out"])], [], [1, 8])
    wrong = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    for dims in ([4, 5], [2**40, 2**40], [-1, 4], [], [0]):
        del wrong.dims[:]
        wrong.dims.extend(dims)
        yield "dims.onnx", model_of([node("MatMul", ["image", "w"], ["out"])], [wrong], [1, 4])
    long = chance.choice((2**20, 2**30, 2**62))
    shape = numpy_helper.from_array(np.array([long], np.int64), "s")
    filled = [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["image", "c"], ["out"])]
    yield "constant.onnx", model_of(filled, [shape], [1, 1], [1, long])
    yield "shapes.onnx", model_of([node("Expand", ["image", "s"], ["out"])], [shape], [1, 1], [1, long])
    for location in ("../x.bin", "/etc/passwd", "a\0b", "", ".", "w" * 5000, "missing.bin"):
        out = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
        out.ClearField("raw_data")
        out.data_location = TensorProto.EXTERNAL
        entry = out.external_data.add()
        entry.key, entry.value = "location", location
        yield "external.onnx", model_of([node("MatMul", ["image", "w"], ["out"])], [out], [1, 4])
    many = []
    for k in range(2000):
        one = numpy_helper.from_array(np.ones((64, 64), np.float32), f"w{k}")
        one.ClearField("raw_data")
        one.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "self.onnx"), ("length", "16384")):
            entry = one.external_data.add()
            entry.key, entry.value = key, value
        many.append(one)
    yield "self.onnx", model_of([node("MatMul", ["image", "w0"], ["out"])], many, [1, 64])
    whole = (DEMO / "digits.onnx").read_bytes()
    for _ in range(25):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        yield "damaged.onnx", bytes(damaged)


def vocabularies(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Lists, vocab.txt and tokenizer.json; of the last also with odd values at each of its places."""
    letters = [chr(97 + k) for k in range(26)]
    long = 300_000 * "ab"
    yield "list-long.json", json.dumps([long, *letters]).encode()
    yield "list-same.json", json.dumps(["a"] * 60000).encode()
    yield "list-empty.json", json.dumps([""] * 60000).encode()
    yield "list-many.json", json.dumps([str(k) for k in range(90000)]).encode()
    yield "list-all.json", json.dumps([str(k) for k in range(65535)]).encode()
    yield "list-halves.json", json.dumps(["\ud800" * 30, "\udfff", "a"]).encode()
    yield "list-deep.json", b"[" * (LARGEST - 9)
    yield "list-of-lists.json", b"[" + b"[]," * 300_000 + b"[]]"
    yield "number.json", b"9" * (LARGEST - 9)
    yield (
        "words.json",
        json.dumps(dict(zip("abcdefg", (0, 2**62, -1, 1.5, None, True, "x"), strict=True))).encode(),
    )
    yield "words-far.json", json.dumps({"a": 65534, "b": 3}).encode()
    yield "lines.txt", b"\n" * LARGEST
    yield "one-line.txt", b"a" * LARGEST
    yield "marks.txt", b"[UNK]\n" + b"##\n" * 60000
    yield "bert.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n" + b"".join(b"##%d\n" % k for k in range(60000))
    yield "no-utf8.txt", chance.randbytes(3000)
    deep: dict[str, object] = {"type": "NFC"}
    for _ in range(400):
        deep = {"type": "Sequence", "normalizers": [deep, deep] if _ < 12 else [deep]}
    special = {"content": "<s>", "id": 27, "special": True}
    whole: dict[str, Any] = {
        "added_tokens": [special, {"content": "</s>", "id": 28}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
            "special_tokens": {"<s>": {"ids": [27]}},
        },
        "padding": {"direction": "Right", "pad_id": 1},
    }
    kinds: list[dict[str, Any]] = [
        {"type": "BPE", "vocab": {c: k for k, c in enumerate([*letters, "ab"])}, "merges": ["a b"], "unk_token": "<s>"},
        {"type": "Unigram", "vocab": [[c, -k] for k, c in enumerate(letters)], "unk_id": 0},
        {"type": "WordPiece", "vocab": {c: k for k, c in enumerate(letters)}, "unk_token": "a"},
        {"type": "WordLevel", "vocab": {c: k for k, c in enumerate(letters)}, "unk_token": "a"},
    ]
    yield "deep.json", json.dumps(whole | {"model": kinds[0], "normalizer": deep}).encode()
    pairs = [f"{a}{b}" for a in letters for b in letters]
    bpe = {w: k for k, w in enumerate([*letters, *pairs])} | {"ab" * k: 1000 + k for k in range(2, 1200)}
    some = [f"ab {'ab' * k}" for k in range(1, 1000)][: LARGEST // 2500] + ["a b"] * 60000
    yield "merges.json", json.dumps({"model": {"type": "BPE", "vocab": bpe, "merges": some}}).encode()
    odd: list[object] = [
        None,
        -1,
        2**40,
        1e308,
        "",
        "x" * 9000,
        [],
        {},
        [[]],
        True,
        0.5,
        "\ud800",
        ["a", "b"],
        {"a": 70000},
        65534,
    ]
    for model in kinds:
        for _ in range(40):
            one = copy.deepcopy(whole | {"model": model})
            if model["type"].startswith("Word"):
                one |= {"normalizer": None, "pre_tokenizer": {"type": "Whitespace"}}
            for _ in range(chance.randrange(1, 3)):
                _spoil(one, chance, odd)
            yield f"{model['type']}.json", json.dumps(one).encode()


def _spoil(node: Any, chance: random.Random, odd: list[object]) -> None:
    """Put an odd value somewhere into nested lists and dictionaries."""
    while isinstance(node, (dict, list)) and node:
        key = chance.choice([*node] if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[key], (dict, list)) or not node[key] or chance.random() < 0.25:
            node[key] = chance.choice(odd)
            return
        node = node[key]


def packed(whole: bytes) -> Callable[[random.Random], Iterator[tuple[str, bytes]]]:
    """Damaged .mica files, whose checksum is mended."""

    def some(chance: random.Random) -> Iterator[tuple[str, bytes]]:
        for _ in range(25):
            damaged = bytearray(whole)
            for _ in range(chance.randrange(1, 5)):
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            yield "damaged.mica", with_crc(bytes(damaged))

    return some


def tflite(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    files = [
        *(DEMO.parents[1] / "docs").rglob("*.tflite"),
        *(Path(__file__).resolve().parents[1] / "models").rglob("*.tflite"),
    ]
    for _ in range(25):
        damaged = bytearray(chance.choice(sorted(files)).read_bytes())
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        yield "damaged.tflite", bytes(damaged)


def heads(model: bytes) -> Callable[[random.Random], Iterator[tuple[str, bytes]]]:
    """Heads of this model, with room for more than they have, and damaged ones whose checksum is mended."""

    def some(chance: random.Random) -> Iterator[tuple[str, bytes]]:
        for kind, width, labels in (
            ("prototype", 128, 60),
            ("softmax", 128, 9),
            ("anomaly", 128, 9),
            ("anomaly", 4096, 40),
        ):
            head = Head(kind, width, model=digest(model), keep=1024)
            for k in range(labels):
                head.teach(np.full(width, k, np.int8), f"l{k}")
            yield f"{kind}-{width}.learnt", (whole := head.state())
            for _ in range(5):
                damaged = bytearray(whole)
                for _ in range(chance.randrange(1, 4)):
                    damaged[chance.randrange(8, 120)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                damaged[4:8] = struct.pack("<I", zlib.crc32(damaged[8:]))
                yield "damaged.learnt", bytes(damaged)

    return some


def commands(kind: str, file: Path, there: Path) -> list[list[object]]:
    """The commands that read a file of this kind. there: a folder with digits.onnx, digits.mica, tones.mica,
    embedding.mica."""
    digits, tones, embedding, out = (there / n for n in ("digits.mica", "tones.mica", "embedding.mica", "out"))
    data = [
        ["pack", DEMO / "digits.onnx", "--calib", file, "-o", out],
        ["run", digits, file],
        ["eval", digits, "--data", file],
        ["teach", embedding, "--data", file, "-o", out],
    ]
    if kind == "sounds":
        return [
            ["run", tones, file],
            ["listen", tones, "--on", "host", file],
            ["eval", tones, "--data", file.parent],
            ["pack", there / "tones.onnx", "--frontend", (there / "frontend").read_text(), "--calib", file, "-o", out],
        ]
    if kind == "heads":
        return [["eval", embedding, "--data", DEMO / "digits_test.npz", "--samples", 5, "--head", file]]
    if kind == "vocabularies":
        return [
            ["pack", there / f"{name}.onnx", "--tokens", file, "--plain", "-o", there / "texts"]
            for name in ("words", "story")
        ] + [["run", there / "texts", "--text", "abba <s> ab\u00e9"]]
    if kind in ("models", "tflite"):
        return [["pack", file, "-o", out], ["fit", file, "--board", "RPI_PICO"]]
    if kind == "packed":
        return [
            ["run", file, DEMO / "digits_test.npz"],
            ["fit", file],
            ["eval", file, "--data", DEMO / "digits_test.npz", "--samples", 5],
        ]
    return data[:2] if kind == "pictures" else data


KINDS = {"arrays": arrays, "tables": tables, "sounds": sounds, "pictures": pictures, "models": models, "tflite": tflite}
KINDS |= {"vocabularies": vocabularies}
OTHERS = ("packed", "heads")  # of models that are packed first


def cases(kind: str, chance: random.Random, there: Path) -> Iterator[tuple[str, list[object]]]:
    """(file's name, command) for all files of a kind; the file lies in `there` while a case is tried."""
    makers: dict[str, Callable[[random.Random], Iterator[tuple[str, bytes]]]] = dict(KINDS)
    makers |= {"packed": packed((there / "digits.mica").read_bytes())}
    makers |= {"heads": heads((there / "embedding.mica").read_bytes())}
    for name, data in makers[kind](chance):
        if len(data) > LARGEST:
            continue
        folder = there / kind / ("a" if kind != "sounds" else "low")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        file.write_bytes(data)
        for words in commands(kind, file, there):
            yield name, words
        file.unlink()


def prepared(there: Path) -> Path:
    """The models that commands take."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "nets"))
    from tones import FRONT_END, LABELS, save_net

    assert main(["pack", str(DEMO / "digits.onnx"), "--plain", "-o", str(there / "digits.mica")]) == 0
    assert main(["pack", str(DEMO / "digits.onnx"), "--embedding", "--plain", "-o", str(there / "embedding.mica")]) == 0
    save_net(there / "tones.onnx")
    for name, length, rows in (("words", 8, 65535), ("story", 1, 29)):
        table = numpy_helper.from_array(np.random.default_rng(1).normal(size=(rows, 2)).astype(np.float32), "table")
        by = numpy_helper.from_array(
            np.random.default_rng(2).normal(size=(2, 3 if length > 1 else rows)).astype(np.float32), "by"
        )
        nodes = [
            helper.make_node("Gather", ["table", "ids"], ["rows"]),
            helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("MatMul", ["mean", "by"], ["out"]),
        ]
        ends = [
            helper.make_tensor_value_info("ids", TensorProto.INT64, [1, length]),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 3 if length > 1 else rows]),
        ]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [table, by])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), there / f"{name}.onnx"
        )
    (there / "labels.txt").write_text("\n".join(LABELS))
    (there / "frontend").write_text(FRONT_END)
    words = ["pack", "tones.onnx", "--frontend", FRONT_END, "--plain", "--labels", "labels.txt", "-o", "tones.mica"]
    assert main([str(there / w) if Path(w).suffix in (".onnx", ".txt", ".mica") else w for w in words]) == 0
    return there


def explore(seed: int, rounds: int, kinds: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        there = prepared(Path(name))
        for k in range(seed, seed + rounds):
            for kind in kinds:
                begun, n = time.monotonic(), 0
                for file, words in cases(kind, random.Random(k), there):
                    n += 1
                    found = tried(*words)
                    if found.faults:
                        size = (there / kind).stat().st_size
                        last = (found.err.strip().splitlines() or [""])[-1][:300]
                        print(f"{k} {file} {words[0]}: {', '.join(found.faults)} ({size}): {last}", flush=True)
                print(f"{kind}, seed {k}: {n} cases, {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:3]]
    explore(numbers[0] if numbers else 0, numbers[1] if len(numbers) > 1 else 1, sys.argv[3:] or [*KINDS, *OTHERS])

"""Damaged and hostile files. The C loader, built with sanitizers, and the Python decoder give one verdict on each.

Either may refuse; neither may crash, hang or read outside the file; what loads also runs. Files are cut at every
length, every field of every record is set to the ends of its range, and random bits and words are changed: with the
checksum put right each time, so that the checks behind it are reached.
"""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import c_build
import numpy as np
import pytest
from models import MODELS
from rich_model import ACT, channels, rich_model, weights, window

from mica.file import codec
from mica.file.codec import FormatError, ModelFile, StepRecord, TensorRecord
from mica.format import records, schema
from mica.kernels import KERNELS

MOST_ARENA = 1 << 20  # as in driver.c
OK, ERR_ARENA = 0, 14
SHARE = 5  # one of so many files goes through the builds for 32 bits, too


def build(folder: Path, build: c_build.Build, changed: bool = False) -> Path:
    """driver.c and the engine, built to report every edge; `changed`: for files that change after they were loaded.

    UndefinedBehaviorSanitizer is left out of that: a shift or a sum out of range is a wrong number then,
    which is allowed.
    """
    here = Path(__file__).parent
    sanitize = ("-fsanitize=address", "-O0") if changed else c_build.SANITIZED  # few files: the compiler takes longer
    own = [flag for flag in sanitize if "coverage" not in flag]
    objects = c_build.sanitized(build, *sanitize)
    objects += c_build.objects(build, [str(here / "driver.c")], *own, *(["-DRUN_CHANGED"] if changed else []))
    if not changed:
        objects += c_build.objects(build, [str(here / "no_coverage.c")])
    return c_build.link(folder / f"driver {build.name}", build, objects, *own)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One for each build, with AddressSanitizer and UndefinedBehaviorSanitizer."""
    folder = tmp_path_factory.mktemp("driver")
    return [build(folder, b) for b in c_build.BUILDS]


@pytest.fixture(scope="module")
def good() -> bytes:
    """A small file that uses everything."""
    return codec.encode(rich_model())


def verdicts(drivers: list[Path], files: list[bytes], share: int = SHARE) -> list[tuple[int, str]]:
    """Status and text of the engine for each file, with a checksum of its outputs: the first driver's.

    The others say the same of some of the files, one of `share`. (scripts/soak gives them many more.)
    """
    said = _said(drivers[0], files)
    for driver in drivers[1:]:
        lines = _said(driver, files[::share])
        differ = [
            (share * i, *both) for i, both in enumerate(zip(said[::share], lines, strict=True)) if both[0] != both[1]
        ]
        assert not differ, f"{len(differ)} files, the first: {differ[0]} of {drivers[0].name} and {driver.name}"
    out = [line.partition(" ") for line in said]
    return [(int(status), text) for status, _, text in out]


def _said(driver: Path, files: list[bytes]) -> list[str]:
    stream = b"".join(struct.pack("<I", len(f)) + f for f in files)
    done = subprocess.run([driver], input=stream, capture_output=True, timeout=300, check=False)
    report = done.stderr.decode(errors="replace")
    lines = done.stdout.decode(errors="replace").splitlines()
    assert done.returncode == 0 and not report, f"{driver.name}, file {len(lines)} of {len(files)}: {report[:4000]}"
    return lines


def python_verdict(data: bytes) -> str:
    """The text of FormatError, or "". Any other exception fails the test."""
    try:
        codec.decode(data)
    except FormatError as e:
        return str(e)
    return ""


def compare(driver: list[Path], files: list[tuple[str, bytes]], share: int = SHARE) -> Counter[int]:
    """Both verdicts on each file agree; how often each status came."""
    statuses: Counter[int] = Counter()
    for (name, data), (status, text) in zip(files, verdicts(driver, [f for _, f in files], share), strict=True):
        statuses[status] += 1
        python = python_verdict(data)
        too_much = status == ERR_ARENA and "too much memory" in text
        assert too_much or (status == OK) == (python == ""), f"{name}: C says {status} {text!r}, Python {python!r}"
    print(f"{len(files)} files: " + ", ".join(f"status {s}: {n}" for s, n in sorted(statuses.items())))
    return statuses


def test_the_good_one(driver: list[Path], good: bytes) -> None:
    assert compare(driver, [("good", good), ("longer", good + b"\xff" * 100)]) == {OK: 2}


@pytest.mark.parametrize("kernel", ["conv2d_s8", "depthwise_conv2d_s8"])
def test_a_dilation_beyond_the_picture(driver: list[Path], kernel: str) -> None:
    """Steps from tap to tap of more than 2^31 bytes, between taps that are all outside but one."""
    rng, c = np.random.default_rng(0), 200
    tensors = [TensorRecord(name, "int8", (1, 1, c, c), 0.05, 0, offset=i * c * c) for i, name in enumerate("xy")]
    blobs = {"weights": weights(rng, c, 2, 2, *((c,) if kernel == "conv2d_s8" else ()))}
    blobs |= channels(rng, c, 4 * c)
    params = window(2) | ACT | {"dilation_h": 60_000, "dilation_w": 60_000}
    params |= {"groups": 1} if kernel == "conv2d_s8" else {}
    step = StepRecord("far", kernel, (0,), (1,), params, blobs)
    assert compare(driver, [("far", codec.encode(ModelFile(tensors, [step], [0], [1])))], 1) == {OK: 1}


def test_cut_at_every_length(driver: list[Path], good: bytes) -> None:
    files = [(f"cut at {n}", good[:n]) for n in range(len(good))]
    # The same with a header that claims to be as short as that.
    at = codec.field_offset(schema.HEADER, "file_bytes")
    for n in range(schema.record_bytes(schema.HEADER), len(good)):
        short = good[:at] + struct.pack("<I", n) + good[at + 4 : n]
        files.append((f"cut at {n} and saying so", codec.with_crc(short)))
    statuses = compare(driver, files)
    assert statuses[OK] == len(good) - _end_of_sections(good), "only the padding behind the last section may be missing"


def test_erased_flash_behind_a_cut(driver: list[Path], good: bytes) -> None:
    """A transfer cut short leaves 0xff, or zeros, up to the length it should have had."""
    files = [
        (f"{fill} from {n}", good[:n] + fill * (len(good) - n))
        for n in range(0, len(good), 61)
        for fill in (b"\xff", b"\0")
    ]
    files += [(f"{name}, checksum right", codec.with_crc(f)) for name, f in files if len(f) > 64]
    files += [("flash", b"\xff" * 4096), ("zeros", bytes(4096)), ("nothing", b"")]
    compare(driver, files)


EDGES = {
    "u8": (0, 1, 2, 3, 5, 6, 7, 127, 128, 255),
    "u16": (0, 1, 2, 3, 4, 127, 255, 256, 32767, 32768, 65534, 65535),
    "u32": (
        0,
        1,
        2,
        3,
        4,
        8,
        15,
        16,
        64,
        255,
        65535,
        65536,
        2**31 - 16,
        2**31 - 1,
        2**31,
        2**32 - 16,
        2**32 - 4,
        2**32 - 1,
    ),
    "i32": (0, 1, -1, 2, 3, 4, 127, 128, -128, -129, 65535, 65536, 2**30, 2**31 - 1, -(2**31)),
    "f32": (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, float("inf"), -float("inf"), float("nan"), 1 / 256),
}


def places(data: bytes) -> Iterator[tuple[str, int, str]]:
    """Name, offset and type of every field of every record of a file."""

    def record(name: str, fields: tuple[schema.Field, ...], base: int) -> Iterator[tuple[str, int, str]]:
        for f in fields:
            if f.type != "4s":
                for i in range(f.count):
                    at = base + codec.field_offset(fields, f.name) + i * schema.TYPE_BYTES[f.type]
                    yield f"{name}.{f.name}[{i}]", at, f.type

    yield from record("header", schema.HEADER, 0)
    header = codec.unpack_record(schema.HEADER, data, 0)
    kinds = {v: k for k, v in schema.SECTIONS.items()}
    for i in range(header["n_sections"]):
        at = header["header_bytes"] + i * header["section_bytes"]
        s = codec.unpack_record(schema.SECTION, data, at)
        name = kinds[s["kind"]]
        yield from record(f"section {name}", schema.SECTION, at)
        for k in range(s["count"]):
            yield from record(f"{name} {k}", schema.TABLES[name], s["offset"] + k * s["record_bytes"])


def put(data: bytes, at: int, kind: str, value: float) -> bytes:
    raw = struct.pack("<" + records.STRUCT[kind], value)
    return data[:at] + raw + data[at + len(raw) :]


def test_every_field_at_its_edges(driver: list[Path], good: bytes) -> None:
    files = []
    for name, at, kind in places(good):
        size = schema.TYPE_BYTES[kind]
        here = struct.unpack_from("<" + records.STRUCT[kind], good, at)[0]
        values: set[float] = set(EDGES[kind])
        if kind != "f32":
            low, high = (-(2**31), 2**31 - 1) if kind == "i32" else (0, 2 ** (8 * size) - 1)
            near = (here + d for d in (-16, -4, -1, 1, 4, 16))
            values |= {v for v in near if low <= v <= high}
        for v in values:
            changed = put(good, at, kind, v)
            files.append((f"{name} = {v}", changed if name == "header.crc32[0]" else codec.with_crc(changed)))
    statuses = compare(driver, files)
    assert len(statuses) >= 12, "the edges reach nearly every reason for refusal"


def test_constants_at_their_edges(driver: list[Path], good: bytes) -> None:
    """Every byte of DATA and STRINGS, and of the padding between sections, at the ends of its range."""
    files = []
    first = min(s.offset for s in _sections(good).values() if s.record_bytes == 0)
    for at in range(first, len(good)):
        for v in {0, 0x7F, 0x80, 0xFF} - {good[at]}:
            files.append((f"byte {at} = {v}", codec.with_crc(good[:at] + bytes([v]) + good[at + 1 :])))
    compare(driver, files)


def _end_of_sections(data: bytes) -> int:
    return max(s.offset + s.bytes for s in _sections(data).values())


def _sections(data: bytes) -> dict[str, codec._Section]:
    return codec._sections(data, codec.unpack_record(schema.HEADER, data, 0))


@pytest.mark.parametrize("seed", range(4))
def test_random_changes(driver: list[Path], good: bytes, seed: int) -> None:
    """Bits, words, and two fields at a time."""
    rng = np.random.default_rng(seed)
    fields = list(places(good))
    files = []
    for i in range(1500):
        data = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            choice = int(rng.integers(3))
            if choice == 0:
                bit = int(rng.integers(len(data) * 8))
                data[bit // 8] ^= 1 << bit % 8
            elif choice == 1:
                at = int(rng.integers(len(data) // 4)) * 4
                data[at : at + 4] = struct.pack("<I", int(rng.choice(EDGES["u32"])))
            else:
                _, at, kind = fields[int(rng.integers(len(fields)))]
                raw = struct.pack("<" + records.STRUCT[kind], type(EDGES[kind][0])(rng.choice(EDGES[kind])))
                data[at : at + len(raw)] = raw
        crc = codec.with_crc(bytes(data)) if i % 10 else bytes(data)
        files.append((f"random {seed} {i}", crc))
    compare(driver, files)


@pytest.mark.parametrize("kind", c_build.BUILDS, ids=lambda kind: kind.name)
def test_file_changes_under_a_running_model(kind: c_build.Build, tmp_path: Path) -> None:
    """Flash rewritten after the load, under every kernel: any numbers may come out, but every address was copied."""
    runner = build(tmp_path, kind, changed=True)
    kernels: set[str] = set()
    for make in MODELS:
        model = make()
        good = codec.encode(model)
        kernels.update(step.kernel for step in model.steps)
        changes = [put(good, at, kind, v) for _, at, kind in places(good) for v in EDGES[kind][:3]]
        files = [good, *changes[:: 1 + len(changes) // 400]]
        statuses = [status for status, _ in verdicts([runner], [codec.with_crc(f) for f in files])]
        assert statuses[0] == OK and statuses.count(OK) > 30, make.__name__
    # What a custom kernel does with its constants is its own.
    assert kernels == {kernel.name for kernel in KERNELS}, "a model with a step of the new kernel is missing"


def test_newer_minor_version(driver: list[Path], good: bytes) -> None:
    """Longer records, a longer header, unknown sections and unknown flags of a later minor version are stepped over."""
    newer = grown(good)
    assert len(newer) > len(good)
    assert compare(driver, [("newer", newer)]) == {OK: 1}
    old, new = codec.decode(good), codec.decode(newer)
    assert new.version == (1, 9)
    assert [t.name for t in new.tensors] == [t.name for t in old.tensors]
    assert codec.encode(new) == good


def grown(data: bytes) -> bytes:
    """The file as a later minor version could write it: every record 12 bytes longer, one section more."""
    h = codec.unpack_record(schema.HEADER, data, 0)
    sections = []
    for i in range(h["n_sections"]):
        s = codec.unpack_record(schema.SECTION, data, h["header_bytes"] + i * h["section_bytes"])
        content = data[s["offset"] : s["offset"] + s["bytes"]]
        if s["record_bytes"]:
            n = s["record_bytes"]
            content = b"".join(content[k * n : (k + 1) * n] + b"\xaa" * 12 for k in range(s["count"]))
            s["record_bytes"] += 12
        sections.append((s, content))
    sections.insert(1, ({"kind": 99, "record_bytes": 3, "count": 7}, b"something new"))
    h |= {
        "version_minor": 9,
        "header_bytes": 64 + 20,
        "section_bytes": 16 + 8,
        "n_sections": len(sections),
        "flags": 0xF0,
    }
    table, body = b"", b""
    start = 64 + 20 + len(sections) * 24
    for s, content in sections:
        body += bytes(-(start + len(body)) % 16)
        s |= {"offset": start + len(body), "bytes": len(content)}
        table += codec.pack_record(schema.SECTION, s) + b"\xbb" * 8
        body += content
    h["file_bytes"] = start + len(body)
    return codec.with_crc(codec.pack_record(schema.HEADER, h) + b"\xcc" * 20 + table + body)


def test_texts(driver: list[Path], good: bytes) -> None:
    """A message to a person has the place, the value found, the value expected and the remedy."""
    where = {name: (at, kind) for name, at, kind in places(good)}

    def changed(name: str, value: float) -> bytes:
        return codec.with_crc(put(good, *where[name], value))

    files = {
        "step 0 (conv): groups do not divide the channels (byte ": changed("STEPS 0.params[8]", 3),
        "step 1 (dw): a parameter is out of its range: found -1, expected 1 ": changed("STEPS 1.params[2]", -1),
        "step 2 (max): claims FAST": changed("STEPS 2.flags[0]", 1),
        "step 3 (mean): kernel 77 is unknown to this build": changed("STEPS 3.kernel[0]", 77),
        "tensor 3 (max): a dimension: found 0, expected 65535": changed("TENSORS 3.dims[1]", 0),
        "the file is cut short: found 100, expected": good[:100],
        "not a .mica file; give a file": b"\x7fELF" + bytes(200),
        "checksum": good[:-1] + b"\x01",
        "format version: found 2, expected 1 (byte 4); update the firmware": put(good, 4, "u16", 2),
    }
    for (expected, data), (_, text) in zip(files.items(), verdicts(driver, list(files.values())), strict=True):
        assert text.startswith(expected), f"{text!r}, expected {expected!r}"
        assert ";" in text and len(text) < 200, text
        assert ";" in python_verdict(data)

"""Features of sound, and of windows of several axes: every core writes the oracle's bytes; the cost of a frame."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import bare_metal
import numpy as np
import pytest
from audio_cases import audio_cases, pcen_cases, sound, speech_cases
from axes_cases import axes_cases, window_of
from bare_metal import CORES, USERMOD, Job
from case import _rng
from sound_frames import frames, windows
from targets import NTH_SLIP, SAME_KERNELS

from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.format.names import clean
from mica.packing.model import set_scratch

# Words of --frontend, the most cycles that a frame may cost, and the most bytes beside the samples.
FRAMES = [
    ("logmel:mlperf-wakeword", 200_000, 4096),
    ("mfcc:mlperf-kws,samples=480,peak=no", 100_000, 2048),
    ("pcan:micro-speech,samples=480", 145_000, 2048),
    ("pcen:librosa,frame=480,fft=512,mels=40,rate=16000,fmax=7500", 125_000, 2304),
]
# The same of windows of several axes, and the shape of the features; the most cycles that a window may cost.
WINDOWS = [
    ("features:rows=50,axes=6,bands=4", (1, 6, 10), 110_000),
    ("features:rows=128,axes=3,bands=4,energy=ln", (1, 3, 10), 100_000),
    ("features:rows=256,axes=3,stats=mean+std+rms+min+max+ptp+cross,bands=0", (1, 3, 7), 50_000),
    ("features:rows=1024,rate=4000,bands=8", (1, 1, 14), 260_000),
]
# The most that one sound, and one window, may cost on a core, in that order: cycles on the M0+, instructions elsewhere.
ON_EACH_CORE = {
    "m0plus": (205_000, 100_000, 145_000, 125_000, 110_000, 100_000, 50_000, 260_000),
    "m33": (109_000, 45_000, 35_500, 59_000, 46_500, 46_000, 30_000, 132_000),
    "m55": (36_000, 16_000, 21_000, 27_000, 31_500, 30_000, 24_500, 73_000),
    "rv32": (160_000, 73_000, 58_500, 90_500, 60_000, 59_000, 30_000, 177_000),
}


def of_the_oracle() -> list[Job]:
    """The kernel's cases, as files of one step."""
    jobs = []
    alone = [c for c in (*pcen_cases(), *speech_cases()) if len(c.xs) == 1]
    for c in (*audio_cases(), *axes_cases(), *alone):
        x = c.xs[0]
        tensors = [
            TensorRecord("x", "int16", x.shape, 1.0, 0, offset=0),
            TensorRecord("y", "int8", tuple(c.q.dims), 0.05, c.q.y_zero, offset=-(-x.nbytes // 16) * 16),
        ]
        step = StepRecord(clean(c.name), c.kernel, (0,), (1,), c.p, c.blobs)
        step.flags = codec.step_flags(step)
        model = ModelFile(tensors, [step], [0], [1], {})
        set_scratch(model, schema.SCRATCH_LIMIT)
        jobs.append(Job(c.name, codec.encode(model), [x]))
    return jobs


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return of_the_oracle()


@pytest.fixture(scope="module")
def expected(jobs: list[Job]) -> dict[str, list[int]]:
    return {job.name: bare_metal.expected(job) for job in jobs}


@pytest.mark.parametrize("name", [name for name in CORES if name not in {"m0plus", *SAME_KERNELS}])
def test_equals_the_oracle(name: str, jobs: list[Job], expected: dict[str, list[int]]) -> None:
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    both = [*jobs, *(dataclasses.replace(job, parts=3) for job in jobs)]
    wrong = bare_metal.differences(both, bare_metal.run(core, bare_metal.build(core), both), expected)
    assert not wrong, f"{len(wrong)} of {len(both)}:\n" + "\n".join(wrong[:20])


# What stands in spectrum.S, a slip in its place; then the same of the other cores' loops, and of all cores' of pcan_s8.
SLIPS_M0PLUS = [
    ("lsls r1, r1, #11\n", "lsls r1, r1, #10\n"),  # rounding of products
    ("    add r5, r10\n", ""),  # the bound of one part of four
    ("mov r1, r10\n    adds r1, r1, r1\n", "mov r1, r10\n    lsls r1, r1, #2\n"),
    ("HALF_BIT r3, r7\n    mov r8", "HALF_BIT r3, r7\n    adds r3, r3, r3\n    mov r8"),
    ("    subs r7, r7, r6\n    TURN", "    adds r7, r7, r6\n    TURN"),  # sin - cos
    ("    subs r5, r4, r1\n", "    adds r5, r4, r1\n"),  # of two numbers without a product
    ("subs \\v, \\v, \\t             // 2", "adds \\v, \\v, \\t             // 2"),
    ("lsls r1, r1, #7\n    lsrs r1, r1, #18", "lsls r1, r1, #8\n    lsrs r1, r1, #18"),  # between two roots
    ("    adds r4, #1\n    add r4, r12", "    add r4, r12"),  # what is negated is rounded the other way
    ("    add r6, r11\n", ""),  # rounding of every other sample
    ("asrs r3, r6, #12", "asrs r3, r6, #11"),  # the upper bits of a logarithm
]
SLIPS_C32 = [
    ("rv32", "more + b.r * c + b.i * w", "b.r * c + b.i * w"),  # rounding of products
    ("rv32", "b.i, -b.r, 0)", "b.i, b.r, 0)"),  # a quarter turn
    ("rv32", "((2 * more - r) >> 12)", "((more - r) >> 12)"),  # what is negated is rounded the other way
    ("rv32", "(n - 2 * high)", "(n - high)"),
    ("rv32", "high += (v >> 12) * w", "high += (v >> 11) * w"),  # the upper bits of a logarithm
    ("rv32", "x << 7 >> 18", "x << 8 >> 18"),  # between two roots
    ("m33", "| 1 << 15", "| 1 << 16"),  # no number has more than 16 bits
]
SLIPS_DSP = [
    ("m33", "eor r9, r9, r6, lsl #12", "eor r9, r9, r6, lsl #13"),  # the bits of one of four numbers
    ("m33", "and \\v, \\m, \\v, asr #1", "and \\v, \\m, \\v, asr #2"),  # four times what is rounded
    ("m33", "ubfx r4, r4, #11, #14", "ubfx r4, r4, #10, #14"),  # between two roots
]
SLIPS_PCAN = [
    ("m33", "half = 0x8000", "half = 0"),  # rounding of what a stage scales
    ("m33", "ssax %0", "sasx %0"),  # a quarter turn
    ("m33", '"r"(0x4000)', '"r"(0)'),  # rounding of products
    ("m33", "ones = 0x10001", "ones = 0x10000"),  # that of the first stage
    ("m33", "sel %0, %0, %2", "sel %0, %2, %0"),  # sizes of negative numbers
    ("m33", "(r >> 1) + (r & 1)", "(r >> 1)"),  # to the nearest root
    ("rv32", "v.i * -factor", "v.i * factor"),
    ("rv32", "if (MICA_RARELY(size >> 15))", "if (MICA_RARELY(size >> 16))"),  # samples that the window makes too large
    ("rv32", "ti - imaginary(sum)", "imaginary(sum) - ti - 1"),
    ("m3", "(int16_t)(r >> 1)", "(int16_t)((r + 1) >> 1)"),
    ("m0plus-qemu", "digit >>= 2", "digit >>= 1"),  # the order of the frame's pairs
]
SLIPS_MVE = [
    ("m55", "vqrdmlsdhx.s32 q2, q1, q4", "vqdmlsdhx.s32 q2, q1, q4"),  # rounding of products
    ("m55", "q0\\n\\tvneg.s32 q3, q3", "q0"),  # what is negated is rounded the other way
    ("m55", "MICA_RARELY((seen & (seen - 1)) == 0)", "0"),  # a largest magnitude of -2^k has k bits
]
SLIPS = [
    *(("m0plus-qemu", "armv6m/spectrum.S", before, after) for before, after in SLIPS_M0PLUS),
    *((name, "armv81m/log_mel.c", before, after) for name, before, after in SLIPS_MVE),
    *((name, "armv7em/spectrum.S", before, after) for name, before, after in SLIPS_DSP),
    *((name, "c32/log_mel.c", before, after) for name, before, after in SLIPS_C32),
    *((name, "c32/pcan.c", before, after) for name, before, after in SLIPS_PCAN),
    ("m33", "c32/samples.h", "& 0x7fff;", "& 0xffff;"),  # the bit that says nothing of a pair
    ("m55", "armv81m/pcan.inc", "vmovltq_s16(sum)", "vmovlbq_s16(sum)"),  # imaginary parts
]


def test_each_slip_has_its_place() -> None:
    """The kernels may have changed: choose another slip."""
    for _, file, before, _ in SLIPS:
        assert before in (USERMOD / "kernels" / "isa" / file).read_text(), (file, before)


@pytest.mark.parametrize(("name", "file", "before", "after"), SLIPS[::NTH_SLIP])
def test_a_slip_is_caught(
    name: str, file: str, before: str, after: str, jobs: list[Job], expected: dict[str, list[int]], tmp_path: Path
) -> None:
    core = CORES[name]
    usermod = tmp_path / "usermod_c"
    shutil.copytree(USERMOD, usermod)
    source = usermod / "kernels" / "isa" / file
    text = source.read_text()
    assert before in text, "the kernel has changed: choose another slip"
    source.write_text(text.replace(before, after))
    try:
        results = bare_metal.run(core, bare_metal.build(core, usermod=usermod), jobs, timeout=60)
    except MicaError:  # it never comes to its end
        return
    assert bare_metal.differences(jobs, results, expected)


@pytest.mark.parametrize(("words", "most", "most_bytes"), FRAMES)
def test_cost(words: str, most: int, most_bytes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES["m0plus"]
    data = frames(words, 1, tmp_path)
    model = codec.decode(data)
    n = model.tensors[model.inputs[0]].dims[-1]
    jobs = [
        Job(f"{kind} {k}", data, [sound(_rng(f"{kind} {k}"), n, kind)[None]])
        for kind, k in (("", 0), ("", 1), ("ends", 0), ("quiet", 0), ("noise", 0), ("silence", 0))
    ]
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    counts = np.array([r.counts[0] for r in results])
    ram = model.steps[0].scratch_min
    with capsys.disabled():
        print(f"\n{words}: {counts.mean():,.0f} cycles a frame, {counts.max():,.0f} at most; {ram:,} bytes")
    assert counts.max() <= most and ram <= most_bytes


@pytest.mark.parametrize(("words", "shape", "most"), WINDOWS)
def test_cost_of_windows(
    words: str, shape: tuple[int, ...], most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = CORES["m0plus"]
    data = windows(words, shape, tmp_path)
    model = codec.decode(data)
    dims = model.tensors[model.inputs[0]].dims
    rows, axes = dims[1], dims[2] if len(dims) > 2 else 1
    jobs = [
        Job(f"{kind} {k}", data, [window_of(_rng(f"{kind} {k}"), rows, axes, kind).reshape(dims)])
        for kind, k in (("mixed", 0), ("mixed", 1), ("ends", 0), ("quiet", 0), ("noise", 0))
    ]
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    counts = np.array([r.counts[0] for r in results])
    ram = model.steps[0].scratch_min
    with capsys.disabled():
        print(f"\n{words}: {counts.mean():,.0f} cycles a window, {counts.max():,.0f} at most; {ram:,} bytes")
    assert counts.max() <= most


@pytest.mark.parametrize("name", ON_EACH_CORE)
def test_cost_on_each_core(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The costs agree with usermod_c/BENCH.md; all are counted in one start of the emulator."""
    core = CORES[name]
    jobs = []
    for words, _, _ in FRAMES:
        data = frames(words, 1, tmp_path)
        model = codec.decode(data)
        jobs.append(Job(words, data, [sound(_rng("0"), model.tensors[model.inputs[0]].dims[-1], "")[None]]))
    for words, shape, _ in WINDOWS:
        data = windows(words, shape, tmp_path)
        model = codec.decode(data)
        dims = model.tensors[model.inputs[0]].dims
        axes = dims[2] if len(dims) > 2 else 1
        jobs.append(Job(words, data, [window_of(_rng("0"), dims[1], axes, "mixed").reshape(dims)]))
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    with capsys.disabled():
        for r in results:
            print(f"\n{name}: {r.name}: {r.counts[0]:,.0f} {core.unit}", end="")
    assert all(r.counts[0] <= most for r, most in zip(results, ON_EACH_CORE[name], strict=True))

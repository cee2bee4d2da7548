"""The kernels of every instruction set, on the emulated core, write the bytes of the numpy oracle;
and a wrong one is seen."""

import dataclasses
import shutil
from pathlib import Path

import bare_metal
import pytest
from bare_metal import CORES, USERMOD, Job
from isa_cases import all_jobs
from targets import NTH_SLIP, SAME_KERNELS

CORE_NAMES = tuple(name for name in CORES if name not in SAME_KERNELS)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return all_jobs()


@pytest.fixture(scope="module")
def expected(jobs: list[Job]) -> dict[str, list[int]]:
    return {job.name: bare_metal.expected(job) for job in jobs}


@pytest.mark.parametrize("name", CORE_NAMES)
def test_equals_the_oracle(name: str, jobs: list[Job], expected: dict[str, list[int]]) -> None:
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    wrong = bare_metal.differences(jobs, results, expected)
    assert not wrong, f"{len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("name", ("m0plus-qemu", "m3", "m33", "m55"))
def test_in_parts(name: str, jobs: list[Job], expected: dict[str, list[int]]) -> None:
    """Steps that are shared by cores: each part with its share of the scratch, the first one first,
    then the last one first."""
    core = CORES[name]
    for parts in (2, 3):
        cut = [dataclasses.replace(job, parts=parts) for job in jobs]
        wrong = bare_metal.differences(cut, bare_metal.run(core, bare_metal.build(core), cut), expected)
        assert not wrong, f"{parts} parts, {len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong[:20])


# Core, file of its kernels, what stands there, a slip in its place.
SLIPS = [
    ("m0plus-qemu", "hot.inc", "asrs r5, r5, #15", "asrs r5, r5, #16"),
    ("m0plus-qemu", "gemm.S", "TWO_PRODUCTS r3, r5, r6", "TWO_PRODUCTS r3, r4, r6"),
    (
        "m0plus-qemu",
        "gemm.S",
        "HALF_BIT r3, r1\n    adds r2, r2, r3",
        "HALF_BIT r3, r1\n    subs r3, #1\n    adds r2, r2, r3",
    ),
    ("m0plus-qemu", "gemm.S", "    adds r6, r6, r3\n    adds r6, #5", "    adds r6, #5"),  # too few are slow
    ("m0plus-qemu", "gemm.S", "adds r7, #255", "adds r7, #100"),
    ("m0plus-qemu", "depthwise.S", "adcs r1, r5\n    lsls r5, r1", "adds r1, r1, r5\n    lsls r5, r1"),
    ("m0plus-qemu", "depthwise.S", "    adds r5, r5, r1\n    movs r3, #20", "    movs r3, #20"),  # too few are slow
    ("m0plus-qemu", "depthwise.S", "movs r2, r1\n    b band", "movs r2, #0\n    b band"),  # a last band that overlaps
    ("m0plus-qemu", "depthwise.S", "HALF_BIT r1, r2\n    adds r3", "HALF_BIT r1, r2\n    lsrs r1, r1, #1\n    adds r3"),
    ("m0plus-qemu", "depthwise_2x2.S", "TAP r2, r8\n    LAST r3, r9", "TAP r2, r9\n    LAST r3, r8"),
    (
        "m0plus-qemu",
        "gemm.S",
        "muls r4, r6, r4\n    adds r3, r3, r4\n    str r3, [r1]",
        "adds r3, r3, r4\n    str r3, [r1]",
    ),
    ("m0plus-qemu", "line.S", "subs r1, r1, r3\n    ldr r4", "adds r1, r1, r3\n    ldr r4"),  # where the first tap lies
    ("m0plus-qemu", "line.S", "HALF_BIT r1, r2\n    adds r3", "HALF_BIT r1, r2\n    adds r1, r1, r1\n    adds r3"),
    ("m0plus-qemu", "dense.S", "adcs r5, r3", "adds r5, r5, r3"),
    ("m0plus-qemu", "hot.inc", "adcs r0, r4\n    lsrs", "adds r0, r0, r4\n    lsrs"),
    ("m0plus-qemu", "dense.S", "TWO_PRODUCTS \\acc, r4, r5", "TWO_PRODUCTS \\acc, r5, r4"),
    ("m0plus-qemu", "dense.S", "asrs r1, r1, r3\n    adcs r1, r4", "asrs r1, r1, r3\n    adds r1, r1, r4"),
    ("m0plus-qemu", "fully_connected.c", "last * args->row", "(last - 1) * args->row"),
    ("m0plus-qemu", "sum.S", "add r4, r10", "add r4, r10\n    adds r4, #1"),
    ("m0plus-qemu", "../../requant.h", "zero + (((t >> (shift - 1)) + 1)", "zero + (((t >> (shift - 1)) + 0)"),
    ("m0plus-qemu", "attention.S", "movs r4, #0\n    mov r8, r4", "movs r4, #1\n    mov r8, r4"),
    ("m0plus-qemu", "hot.inc", "adcs r0, r3", "adds r0, r0, r3"),
    ("m0plus-qemu", "attend.c", "#define MOST 127", "#define MOST 128"),
    ("m3", "../c32/mul.c", "(1 << (shift - 1)) +", "(1 << (shift - 1)) - 1 +"),
    ("rv32", "../c32/sum.h", "(int32_t)folded,", "(int32_t)folded - 1,"),
    ("m3", "../c32/average_pool2d.c", "(128 + p->x_zero)", "(128 + p->x_zero) + 1"),
    ("m3", "../../requant.h", "(t >> (shift - 1)) + 1", "(t >> (shift - 1))"),
    ("m3", "dense.S", "mov r12, #0x8000", "mov r12, #0"),
    ("m3", "fully_connected.c", "- 1)) + 1) >> 1", "- 1)) + 0) >> 1"),
    ("m33", "../armv7em/gemm.S", "sub r8, r7, #1\n", "sub r8, r7, #2\n"),
    ("m33", "../armv7em/conv2d.c", "*w *= 2", "*w *= 1"),
    ("m33", "../armv7em/gemm.S", "smmla \\a, \\a, r2, r3", "smmlar \\a, \\a, r2, r3"),
    ("m33", "../armv7em/gemm.S", "smmla \\sum, \\sum, r2, r3", "smmlar \\sum, \\sum, r2, r3"),  # of a pixel alone
    ("m33", "../armv7em/gemm.S", "orr r5, r5, r7, lsl #8", "nop"),  # of three channels
    ("m33", "../armv7em/depthwise.S", "smmla \\sum, \\sum, \\mult, ", "smmlar \\sum, \\sum, \\mult, "),
    ("m33", "../armv7em/depthwise.S", "ssat r9, #23, r7", "ssat r9, #25, r7"),  # sums that leave 32 bits
    ("m33", "../armv7em/depthwise.S", ".equ DOUBLINGS, 8", ".equ DOUBLINGS, 9"),
    ("m33", "../armv7em/kernels.h", "(shift - 1)) + 1", "(shift - 1)) + 0"),
    ("m33", "../armv7em/conv2d_winograd.c", "(1 << shift) +", "(1 << shift) - 1 +"),
    ("m33", "../armv7em/winograd.S", "smmla \\v, \\v, r3, r4", "smmlar \\v, \\v, r3, r4"),
    ("m55", "gemm.S", "vrshl.s32 q1, q1, q6", "vshl.s32 q1, q1, q6"),
    ("m55", "gemm.S", "vctp.8 r11\n    STEP a, t", "STEP a"),
    ("m55", "depthwise.S", "vrshl.s32", "vshl.s32"),
    ("m55", "dense.S", "vrshl.s32", "vshl.s32"),
    (
        "m55",
        "average_pool2d.c",
        "vrshlq_n_s32(vqdmulhq_n_s32(odd, mult), shift)",
        "vshlq_r_s32(vqdmulhq_n_s32(odd, mult), shift)",
    ),
    ("rv32", "conv2d_winograd.c", "(1 << shift) +", "(1 << shift) - 1 +"),
    ("m33", "../c32/attend.c", "s2 += v * *k2++", "s2 += v * *k1++"),
    ("rv32", "../c32/attend.h", "(u & 255)", "(u & 127)"),
    ("rv32", "kernels.h", "(1 << (shift - 1)) +", "(1 << (shift - 1)) - 1 +"),
    ("rv32", "gemm.S", "li a3, 0x8000", "li a3, 0x7e00"),
    ("rv32", "depthwise.S", "mulh \\a, \\a, s9", "mulhu \\a, \\a, s9"),
    ("rv32", "dense.S", "addi \\acc, \\acc, 1\n", "addi \\acc, \\acc, 0\n"),
]


def test_each_slip_has_its_place() -> None:
    """The kernels may have changed: choose another slip."""
    for name, file, before, _ in SLIPS:
        assert before in (bare_metal.isa_folder(CORES[name].isa, USERMOD) / file).read_text(), (file, before)


@pytest.mark.parametrize(
    ("name", "file", "before", "after"), SLIPS[::NTH_SLIP], ids=lambda v: str(v).replace("\n", ";")[:30]
)
def test_a_slip_is_caught(
    name: str, file: str, before: str, after: str, jobs: list[Job], expected: dict[str, list[int]], tmp_path: Path
) -> None:
    """Off by one in a rounding, on purpose: the cases above have to see it."""
    core = CORES[name]
    usermod = tmp_path / "usermod_c"
    shutil.copytree(USERMOD, usermod)
    source = bare_metal.isa_folder(core.isa, usermod) / file
    text = source.read_text()
    assert before in text, "the kernel has changed: choose another slip"
    source.write_text(text.replace(before, after))
    program, parts = bare_metal.build(core, usermod=usermod), [jobs[i::7] for i in range(7)]
    # Most slips show in the first seventh, and the others run no more.
    assert any(bare_metal.differences(part, bare_metal.run(core, program, part), expected) for part in parts)

"""Cycles by published tables: short sequences against the manuals, and the plugin in QEMU against QEMU's own count."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import bare_metal
import cycle_tables
import layers
import pytest
from bare_metal import CORES
from targets import nightly

CORTEX_M4 = [
    # Arm DDI 0439, "Load/store timings", in its words: three, three, three and four cycles in total.
    ("ldr r0, [r1]\n ldr r1, [r2]", 3),
    ("ldr r0, [r1, r2]\n str r0, [r3, #20]", 3),
    ("ldr r0, [r1, r2]\n str r1, [r3, r2]", 3),
    ("ldr r0, [r1, r5]\n ldr r1, [r2]\n ldr r2, [r3, #4]", 4),
    ("ldr r1, [r0]\n ldr r2, [r1]", 4),  # the second waits for its address
    ("str r0, [r1, #4]\n str r0, [r1, #8]", 2),
    ("str r0, [r1, r2]", 2),
    ("strb r0, [r1], #1\n ldrsb r3, [r1, #2]!", 3),
    ("ldrd r0, r1, [r2], #8\n ldr r3, [r4]\n strd r0, r1, [r2]", 3 + 2 + 3),
    ("ldmia r0!, {r1, r2, r3}\n stmia r0!, {r1, r2}\n push {r4-r7, lr}\n pop {r4-r7}", 4 + 3 + 6 + 5),
    ("ldmia.w r8!, {r1-r3, r9}", 5),
    ("smlad r0, r1, r2, r3\n smmla r0, r1, r2, r3\n mla r0, r1, r2, r3\n smlal r0, r1, r2, r3\n ssat r0, #8, r1", 5),
    ("adds r0, r0, #1\n sxtb16 r1, r2, ror #8\n asrs r0, r1\n cmp r0, r8\n nop", 5),
    ("udiv r0, r1, r2", 12),
    ("b.n 2f\n nop\n2: subs r0, r0, #1", 1 + 2 + 1),
    ("bne.n 2f\n subs r0, r0, #1\n 2: nop", 3),  # not taken: the nop is the next in any case
]
HAZARD3 = [
    # "Instruction Cycle Counts" of its documentation.
    ("lb a0, 0(a1)\n add a2, a2, a0", 3),
    ("lb a0, 0(a1)\n add a2, a2, a3", 2),
    ("lw a0, 0(a1)\n sw a0, 4(a1)", 2),  # stored, not computed with
    ("lw a0, 0(a1)\n sw a1, 4(a0)", 3),
    ("lw s0, 0(s1)\n lw s1, 0(s0)", 3),
    ("lw ra, 12(sp)\n addi sp, sp, 16\n jr ra", 3),
    ("lw ra, 12(sp)\n jr ra", 3),
    ("lh s0, 0(s1)\n mv a0, s0\n add s1, s1, s0", 4),
    ("lw s0, 0(s1)\n bnez s0, 2f\n 2: nop", 4),
    ("mul a0, a1, a2\n mulh a0, a0, a2\n srai a0, a0, 4", 3),
    ("div a0, a1, a2\n remu a0, a1, a2", 36),
    (".option norvc\n j 2f\n nop\n 2: nop", 3),
    (
        ".option rvc\n c.j 2f\n c.nop\n c.nop\n 2: .option norvc\n addi a0, a0, 0",
        1 + 1 + 1 + 1,
    ),  # to a wide one that is not aligned
]


class Instruction(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64),
        *(
            (name, ctypes.c_uint8)
            for name in ("bytes", "cycles", "after_load", "taken", "target_penalty", "stalls", "loads")
        ),
        *((name, ctypes.c_uint32) for name in ("writes", "waits_for", "made", "address_of")),
    )


class Count(ctypes.Structure):
    _fields_ = (*((n, ctypes.c_uint64) for n in ("instructions", "cycles", "late")), ("last", ctypes.c_void_p))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The tables without QEMU."""
    made = tmp_path_factory.mktemp("cycles") / "tables.so"
    shared = cycle_tables.SHARED
    sources = [cycle_tables.PLUGIN / "hazard3.c", shared / "cortex_m4.c", shared / "count.c"]
    subprocess.run(
        ["gcc", *cycle_tables.FLAGS, f"-I{shared}", "-fvisibility=default", "-o", made, *sources], check=True
    )
    return ctypes.CDLL(str(made))


def counted(tables: ctypes.CDLL, table: str, prefix: str, flags: list[str], code: str, folder: Path) -> Count:
    """Count the cost of the code from its first instruction on; a jump to a label is followed."""
    (folder / "code.S").write_text(f".globl _start\n_start: {code}\n")
    made = folder / "code.o"
    subprocess.run([f"{prefix}gcc", *flags, "-c", "-o", made, folder / "code.S"], check=True)
    listing = subprocess.run([f"{prefix}objdump", "-d", made], capture_output=True, text=True, check=True).stdout
    subprocess.run([f"{prefix}objcopy", "-O", "binary", "-j", ".text", made, folder / "code.bin"], check=True)
    raw = (folder / "code.bin").read_bytes()
    count, kept = Count(), []
    rows = [line.split("\t") for line in listing.splitlines() if line.startswith(" ") and ":\t" in line]
    jump_to = 0
    for row in rows:
        address = int(row[0].strip(" :"), 16)
        if address < jump_to:
            continue
        i = Instruction(address=address, bytes=len(row[1].replace(" ", "")) // 2)
        getattr(tables, f"decode_{table}")(raw[address : address + 4].ljust(4, b"\0"), ctypes.byref(i))
        kept.append(i)
        tables.cycles_count(ctypes.byref(count), ctypes.byref(i))
        if row[2].strip() in ("b.n", "j", "c.j"):
            jump_to = int(row[3].split()[0], 16)
    return count


@pytest.mark.parametrize(("code", "cycles"), CORTEX_M4)
def test_cortex_m4(tables: ctypes.CDLL, code: str, cycles: int, tmp_path: Path) -> None:
    flags = ["-mcpu=cortex-m4", "-mthumb"]
    head = ".syntax unified\n.thumb\n "
    assert counted(tables, "cortex_m4", "arm-none-eabi-", flags, head + code, tmp_path).cycles == cycles


@pytest.mark.parametrize(("code", "cycles"), HAZARD3)
def test_hazard3(tables: ctypes.CDLL, code: str, cycles: int, tmp_path: Path) -> None:
    flags = ["-march=rv32imc", "-mabi=ilp32", "-misa-spec=2.2", "-Wa,-mno-relax"]
    assert counted(tables, "hazard3", "riscv64-unknown-elf-", flags, code, tmp_path).cycles == cycles


def test_late_addresses(tables: ctypes.CDLL, tmp_path: Path) -> None:
    """Counted apart: an address that the instruction in front computes; not one that an earlier does."""
    for code, late in (
        ("adds r0, #4\n ldr r1, [r0]", 1),
        ("adds r0, #4\n nop\n ldr r1, [r0]", 0),
        ("cmp r0, #4\n ldr r1, [r0]", 0),
    ):
        got = counted(
            tables, "cortex_m4", "arm-none-eabi-", ["-mcpu=cortex-m4", "-mthumb"], ".syntax unified\n " + code, tmp_path
        )
        assert got.late == late, code


@pytest.mark.parametrize(
    ("name", "least", "most"), [pytest.param("m4", 1.3, 1.8, marks=nightly), ("m33", 1.3, 1.8), ("rv32", 1.0, 1.15)]
)
def test_in_qemu(name: str, least: float, most: float) -> None:
    """The plugin sees as many instructions as QEMU's clock has counted, and cycles that such code can take."""
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    chosen = [x for x in layers.LAYERS if x.name in ("kws.dw3x3 25x5x64", "kws.fc 64-12", "res.pw s2 32-64 16x16")]
    jobs = [layers.job(x, "", core.board) for x in chosen]
    results = bare_metal.run(core, bare_metal.build(core), jobs, cycles=cycle_tables.TABLES[name])
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    for job, r in zip(jobs, results, strict=True):
        assert r.executed[0] == pytest.approx(r.counts[0], abs=2 * core.per_tick + 10), job.name
        assert least < r.cycles[0] / r.executed[0] < most, (job.name, r.cycles, r.executed)

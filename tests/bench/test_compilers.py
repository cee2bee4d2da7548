"""Kernels write the oracle's bytes with other compilers, too; what GCC 14 for Arm does wrong is nowhere in the C."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import bare_metal
import pytest
from bare_metal import CORES, USERMOD, Compiler, Core, Job
from cases import CASES
from compilers import COMPILERS, compiler
from isa_cases import KERNELS, MOST_BYTES, all_jobs
from one_step import model_of
from targets import nightly
from test_front_end_cost import of_the_oracle

from mica.errors import Unsupported
from mica.file import codec

CORE_NAMES = [name for name in CORES if name != "m0plus"]  # m0plus-qemu is the same core in a faster emulator
AT_ONCE = 1000  # jobs that the emulated memory holds
# GCC 14.2 for a core with UMLAL multiplies the whole of v: a product of 32 bits, of a factor masked to 16 bits,
# is added to 64 bits.
WRONG = """
unsigned long long f(unsigned v, unsigned short gain, unsigned long long sum) { return sum + (v & 0xffffu) * gain; }
unsigned long long g(unsigned v, unsigned w, unsigned long long sum) {
    return sum + (unsigned)(unsigned short)v * (w & 9);
}
"""


def found(name: str, core: Core) -> Compiler | None:
    try:
        return compiler(name, core)
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    """Every case of every kernel."""
    front_ends = of_the_oracle()
    there = {job.name for job in front_ends}
    others = [c for c in CASES if c.kernel not in KERNELS and sum(x.nbytes for x in c.xs) <= MOST_BYTES]
    plain = [Job(c.name, codec.encode(model_of(c)), c.xs) for c in others if c.name not in there]
    return [*all_jobs(), *front_ends, *plain]


@pytest.fixture(scope="module")
def expected(jobs: list[Job]) -> dict[str, list[int]]:
    return {job.name: bare_metal.expected(job) for job in jobs}


@nightly
@pytest.mark.parametrize("name", COMPILERS)
@pytest.mark.parametrize("core_name", CORE_NAMES)
def test_equals_the_oracle(core_name: str, name: str, jobs: list[Job], expected: dict[str, list[int]]) -> None:
    core = CORES[core_name]
    assert not bare_metal.available(core), bare_metal.available(core)
    program = bare_metal.build(core, compiler=found(name, core))
    wrong = []
    for i in range(0, len(jobs), AT_ONCE):
        some = jobs[i : i + AT_ONCE]
        wrong += bare_metal.differences(some, bare_metal.run(core, program, some), expected)
    assert not wrong, f"{len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong[:20])


def dropped(core: Core, cc: Compiler | None, source: Path, tmp_path: Path) -> list[str]:
    """Return the wide products of a file whose factor GCC took without its mask, from GCC's own account of them."""
    dump = tmp_path / "dump"
    command = cc.command if cc else (f"{core.tools[0]}gcc",)
    folders = ("include", "kernels", f"kernels/isa/{bare_metal.isa_folder(core.isa).name}")
    flags = [*(f for f in core.flags if not f.startswith("--specs")), "-O2", "-std=c99", "-ffreestanding"]
    places = [f"-I{USERMOD / folder}" for folder in folders]
    output = [f"-fdump-tree-widening_mul={dump}", "-S", "-o", str(tmp_path / "out.s")]
    subprocess.run([*command, *flags, *places, *output, str(source)], check=True)
    lines = []
    for text in re.split(r"^;; Function ", dump.read_text(), flags=re.M)[1:]:
        narrow = dict(re.findall(r"^  (\w+) = (\S+) & 65535;", text, flags=re.M))
        narrow |= dict(re.findall(r"^  (\w+) = \(short unsigned int\) (\S+);", text, flags=re.M))
        for _ in range(3):  # through further casts
            casts = re.findall(r"^  (\w+) = \([\w ]+\) (\w+);", text, flags=re.M)
            narrow |= {to: narrow[of] for to, of in casts if of in narrow and to not in narrow}
        pairs = re.findall(r"^  \w+ = (\S+) \* (\S+);", text, flags=re.M)
        masked = {narrow[factor] for pair in pairs for factor in pair if factor in narrow}
        wide = re.findall(r"^  (\S+ = WIDEN_MULT\w+ <(\S+), (\S+), .*)$", text, flags=re.M)
        lines += [f"{text.split()[0]}: {line}" for line, *factors in wide if masked.intersection(factors)]
    return lines


@pytest.mark.parametrize("name", ["own", pytest.param("gcc-14", marks=nightly)])
def test_a_compiler_that_is_known_to_be_wrong(name: str, tmp_path: Path) -> None:
    """GCC 14 for Arm drops a mask. A release that no longer does may leave the list; another has to join it."""
    core = CORES["m33"]
    cc = found(name, core)
    (tmp_path / "wrong.c").write_text(WRONG)
    command = cc.command if cc else (f"{core.tools[0]}gcc",)
    release = int(subprocess.run([*command, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0])
    assert len(dropped(core, cc, tmp_path / "wrong.c", tmp_path)) == (2 if release == 14 else 0), release


@nightly
@pytest.mark.parametrize("core_name", ["m3", "m33", "m55"])
def test_no_factor_loses_its_mask(core_name: str, tmp_path: Path) -> None:
    """Look through all C of the engine, as this core's kernels compile it."""
    core = CORES[core_name]
    cc = found("gcc-14", core)
    files = [path for path in bare_metal.sources(core.isa) if path.suffix == ".c"]
    assert len(files) > 50
    lines = [f"{path.name}: {line}" for path in files for line in dropped(core, cc, path, tmp_path)]
    assert not lines, "\n".join(lines)

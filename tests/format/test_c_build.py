"""The portable C builds without a warning wherever boards build it, and with any kernel left out."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import c_build
import pytest
import usermod_models
from models import model_with
from targets import ALL

from mica.file import codec
from mica.kernels import KERNELS
from mica.kernels.base import Kernel

# As a firmware: where code may lie anywhere, a constant table of functions is written while a program is loaded.
FIXED = "-fno-pie"
TARGETS = {
    "gcc -O2": ("gcc", ["-O2", FIXED]),
    "gcc -Os": ("gcc", ["-Os", FIXED]),
    "gcc 32 bit": ("gcc", ["-O2", FIXED, "-m32", "-ffreestanding"]),
    "clang -O2": ("clang", ["-O2", FIXED]),
    "Cortex-M0+ -Os": ("arm-none-eabi-gcc", ["-Os", "-mcpu=cortex-m0plus", "-mthumb"]),
    "Cortex-M3 -O2": ("arm-none-eabi-gcc", ["-O2", "-mcpu=cortex-m3", "-mthumb"]),
    "RV32IMC -Os": (
        "riscv64-unknown-elf-gcc",
        ["-Os", "-march=rv32imc", "-mabi=ilp32", "-ffreestanding", "--specs=picolibc.specs"],
    ),
    "Xtensa lx106 -O2": (
        "xtensa-lx106-elf-gcc",
        ["-O2", "-mlongcalls", "-ffreestanding", "-isystem", "/usr/lib/xtensa-lx106-elf/include"],
    ),
}
# With `scripts/test --all` alone: firmwares of each run are compiled for such cores, with fewer warnings.
NIGHTLY = ("gcc -Os", "gcc 32 bit", "Cortex-M3 -O2", "RV32IMC -Os", "Xtensa lx106 -O2")
# scripts/setup installs the others.
OPTIONAL = ("clang -O2",) if c_build.HAS_32_BIT else ("gcc 32 bit", "clang -O2")


def _works(cc: str, flags: list[str], folder: Path) -> bool:
    (folder / "probe.c").write_text("#include <string.h>\n#include <stdint.h>\n#include <stdbool.h>\nint probe;\n")
    command = [cc, *flags, "-c", "probe.c", "-o", "probe.o"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """The object files of a target, without a warning. Skips where its compiler need not be there."""

    @functools.cache
    def objects(target: str) -> list[str]:
        folder = tmp_path_factory.mktemp("target")
        name, flags = TARGETS[target]
        cc = c_build.compiler(name)
        if cc is None or not _works(cc, flags, folder):
            assert target in OPTIONAL, f"{name} does not work; scripts/setup installs it"
            pytest.skip(f"{name} {' '.join(flags)} is not installed")
        c_build.run(cc, *c_build.STRICT, *flags, *c_build.INCLUDE, "-c", *c_build.SOURCES, cwd=folder)
        made = sorted(str(p) for p in folder.glob("*.o") if p.name != "probe.o")
        assert len(made) == len(c_build.SOURCES)
        return made

    return objects


@pytest.mark.parametrize("target", [name for name in TARGETS if ALL or name not in NIGHTLY])
def test_no_warnings(target: str, compiled: Callable[[str], list[str]]) -> None:
    name, objects = TARGETS[target][0], compiled(target)

    # No global state, and nothing but memcpy, memset, memcmp (which clang calls bcmp), strcmp,
    # strlen and the compiler's own arithmetic from outside.
    nm = c_build.compiler(name.replace("gcc", "nm") if name.endswith("-gcc") else "nm")
    if nm is not None:
        listing = subprocess.run([nm, *objects], capture_output=True, text=True, check=True).stdout
        symbols = re.findall(r"(?:^|\s)([A-Za-z]) (\S+)$", listing, re.MULTILINE)
        assert not [s for kind, s in symbols if kind in "BbCDdGgSs" and not s.startswith((".", "$"))], "writable data"
        ours = {s for kind, s in symbols if kind in "TtRr"}
        outside = {s for kind, s in symbols if kind == "U" and s not in ours}
        allowed = re.compile(
            r"mem(cpy|set|move|cmp)|bcmp|str(cmp|len)|__aeabi_\w+|__gnu_thumb1_case_\w+|"
            r"__(u?div|u?mod|u?mul|ashl|ashr|lshr)\w*[34]"
            r"|__(lt|le|gt|ge|eq|ne|unord)sf2"
        )
        other = {
            s
            for s in outside
            if not allowed.fullmatch(s) and s != "_GLOBAL_OFFSET_TABLE_" and not s.startswith("__x86")
        }
        assert not other, f"calls outside: {other}"


def test_no_floating_point(compiled: Callable[[str], list[str]]) -> None:
    """A Cortex-M0+ build calls no soft-float arithmetic (comparisons of scales at load are allowed)."""
    nm = c_build.compiler("arm-none-eabi-nm")
    assert nm is not None, "arm-none-eabi-nm is not installed; scripts/setup installs it"
    objects = compiled("Cortex-M0+ -Os")
    listing = subprocess.run([nm, "-u", *objects], capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"__aeabi_(?:f(?:add|sub|mul|div)|d\w+|[callbacks]2[fd]|f2\w+)\b", listing)


@pytest.fixture(scope="module")
def whole_build(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each source's object file, with all kernels in it."""
    cc = c_build.compiler("gcc", "clang")
    assert cc, "no C compiler; scripts/setup installs one"
    folder = tmp_path_factory.mktemp("whole")
    sources = [str(Path(__file__).with_name("driver.c")), *c_build.SOURCES]
    c_build.run(cc, *c_build.STRICT, "-O0", *c_build.INCLUDE, "-c", *sources, cwd=folder)
    names = {source: folder / Path(source).with_suffix(".o").name for source in sources}
    assert len(set(names.values())) == len(names), "two sources of one name would be one object"
    return names


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_without_a_kernel(kernel: Kernel, tmp_path: Path, whole_build: dict[str, Path]) -> None:
    """It builds, the kernel's code is gone, and a model that needs it is refused with the kernel's name."""
    cc = c_build.compiler("gcc", "clang")
    assert cc
    without = f"MICA_WITHOUT_{kernel.name.upper()}"
    named = re.compile(rf"\b{without}\b|MICA_WITHOUT_##")  # operators.c makes the name of each from the list of kernels
    headers = [p.read_text() for p in c_build.USERMOD.rglob("*.h")]
    assert not any(re.search(rf"#\s*if.*\b{without}\b", text) for text in headers), "then every object differs"
    # The other files are the same without the kernel.
    changed = [source for source in whole_build if named.search(Path(source).read_text())]
    assert len(changed) >= 3, "the kernel, its operator, the table of operators"
    c_build.run(cc, *c_build.STRICT, "-O0", f"-D{without}", *c_build.INCLUDE, "-c", *changed, cwd=tmp_path)
    objects = [str(tmp_path / made.name if source in changed else made) for source, made in whole_build.items()]
    c_build.run(cc, *objects, "-o", "driver", cwd=tmp_path)
    assert f"mica_{kernel.name}_ref".encode() not in (tmp_path / "driver").read_bytes()
    model = model_with(kernel.name)
    whole = codec.encode(model)
    step = next(i for i, s in enumerate(model.steps) if s.kernel == kernel.name)
    # Steps up to the one before need only what this build has.
    steps, model.steps, model.golden = model.steps, model.steps[:step], []
    files = [whole, codec.encode(model)]
    stream = b"".join(struct.pack("<I", len(f)) + f for f in files)
    done = subprocess.run([tmp_path / "driver"], input=stream, capture_output=True, check=True)
    refused, accepted = done.stdout.decode().splitlines()
    assert refused.startswith("11 ")
    assert f"step {step} ({steps[step].name}): kernel {kernel.name} is not in this build" in refused
    assert accepted.startswith("0 ok")


@pytest.mark.parametrize(
    ("part", "make", "says"),
    [
        (
            "STRIPS",
            usermod_models.by_rows,
            "this build has no strips (byte 24); update the firmware, or pack the model again",
        ),
        ("TOKENS", usermod_models.language, "this build has no language models (byte 24); update the firmware"),
        ("CODES4", usermod_models.coded, "step 0 (/dense): this build has no weights of 4 bits"),
    ],
)
def test_without_a_part(part: str, make: Callable[[], codec.ModelFile], says: str, tmp_path: Path) -> None:
    """It builds without a warning, refuses what needs the part, and takes what does not."""
    cc = c_build.compiler("gcc", "clang")
    assert cc
    sources = [str(Path(__file__).with_name("driver.c")), *c_build.SOURCES]
    c_build.run(
        cc, *c_build.STRICT, "-O0", f"-DMICA_WITHOUT_{part}", *c_build.INCLUDE, *sources, "-o", "driver", cwd=tmp_path
    )
    files = [codec.encode(make()), codec.encode(usermod_models.small())]
    stream = b"".join(struct.pack("<I", len(f)) + f for f in files)
    done = subprocess.run([tmp_path / "driver"], input=stream, capture_output=True, check=True)
    refused, accepted = done.stdout.decode().splitlines()
    assert says in refused
    assert accepted.startswith("0 ok")

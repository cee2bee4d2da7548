"""`mica cc`: the folder builds without a warning, gives the host's bytes on every core, and is the same each time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import bare_metal
import pytest
import usermod_models as models
from c_programs import SANITIZED, SMALL, STRICT, build_for, emulate, program, run_here, run_on, write
from helpers import mica, reference_model
from mlperf_runner import conversation, expected
from targets import ALL, nightly

from mica.c_program import folder
from mica.c_program.folder import Program, c_string, identifier, one_line
from mica.c_program.measure import measure_program
from mica.c_program.sources import CORES
from mica.compile import compile_file
from mica.errors import MicaError
from mica.file.codec import decode, encode
from mica.format import schema
from mica.format.records import field_offset, with_crc

# On each run: a model of everything on the cores of both compilers.
HERE = tuple(SMALL) if ALL else ("by_rows", "coded", "golden_state", "hearing")
CHECKED = tuple(SMALL) if ALL else ()
ON_CORES = [(name, core) for name in SMALL for core in bare_metal.CORES] if ALL else [
    ("by_rows", "m0plus-qemu"), ("coded", "rv32"), ("signal", "m55")]  # fmt: skip


@pytest.mark.parametrize(("name", "checked"), [*((name, False) for name in HERE), *((name, True) for name in CHECKED)])
def test_the_same_bytes_here(name: str, checked: bool, tmp_path: Path) -> None:
    """Under the sanitizers of addresses and of undefined behaviour."""
    made = program(name, ["ref"], checked)
    write(made, tmp_path)
    done = run_here(tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.parametrize(("name", "core"), ON_CORES)
def test_the_same_bytes_on_a_core(name: str, core: str, tmp_path: Path) -> None:
    emulated = bare_metal.CORES[core]
    if reason := bare_metal.available(emulated):
        pytest.skip(reason)
    made = program(name, [emulated.isa])
    _, crc, _ = run_on(emulated, tmp_path, write(made, tmp_path))
    assert crc == made.golden_crc


def test_the_compiler_chooses_the_core(tmp_path: Path) -> None:
    """All cores in one folder: those of other cores are empty, so that the folder is built as it is."""
    made = program("by_rows", CORES)
    sources = write(made, tmp_path)
    if ALL:
        assert run_on(bare_metal.CORES["m33"], tmp_path, sources)[1] == made.golden_crc
    built = subprocess.run(["make", "-C", tmp_path, "CFLAGS=-O0 " + " ".join(STRICT)], capture_output=True, text=True)
    assert built.returncode == 0 and "warning" not in built.stderr, built.stderr
    assert subprocess.run([tmp_path / "build" / "net"], check=False, capture_output=True).returncode == 0


def test_a_program_in_cpp_takes_the_header(tmp_path: Path) -> None:
    """The example as C++11, linked with the sources as C."""
    write(program("golden_state", ["ref"]), tmp_path)
    subprocess.run(["make", "-C", tmp_path, "CFLAGS=-O0"], check=True, capture_output=True)
    objects = [path for path in (tmp_path / "build").rglob("*.o") if path.name != "main.c.o"]
    command = ["g++", "-std=c++11", *STRICT, f"-I{tmp_path / 'src'}", "-x", "c++", tmp_path / "main.c", "-x", "none"]
    subprocess.run([*command, *objects, "-o", tmp_path / "cpp"], check=True)
    assert subprocess.run([tmp_path / "cpp"], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("compiler", ("xtensa-lx106-elf-gcc", "riscv64-unknown-elf-gcc"))
def test_other_compilers_take_it(compiler: str, tmp_path: Path) -> None:
    """Compiled only; a core of 64 bits has the reference's kernels."""
    sources = write(program("golden_state", CORES), tmp_path)
    specs = ["-specs=picolibc.specs"] if compiler.startswith("riscv") else []
    command = [compiler, "-std=c99", "-O0", *specs, *STRICT, f"-I{tmp_path / 'src'}", "-c", *sources]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_twice_the_same_folder() -> None:
    assert program("by_rows", CORES).files() == program("by_rows", CORES).files()


def test_a_damaged_model_is_refused_by_the_checked_program(tmp_path: Path) -> None:
    """With a wrong checksum, and with a right one and a section out of bounds. It returns the engine's status."""
    data = encode(SMALL["golden_state"]())
    made = Program(data, "net", ["ref"], checked=True)
    write(made, tmp_path)
    source = tmp_path / "src" / "net.c"
    text = source.read_text()
    (tmp_path / "main.c").write_text('#include "net.h"\nint main(void) { int e = net_begin(); net_run(); return e; }\n')
    make = ["make", "-C", tmp_path, "CFLAGS=-O0"]
    whole = re.search(r"net_constants\[\].*?\{\n(.*?)\n\};", text, re.S)
    assert whole is not None
    file = bytes(int(n) for n in re.findall(r"\d+", whole[1]))
    damaged, far = bytearray(file), bytearray(file)
    damaged[-1] ^= 1
    far[schema.record_bytes(schema.HEADER) + field_offset(schema.SECTION, "offset") + 1] ^= 0xF0
    for data, status in ((file, 0), (damaged, 6), (with_crc(bytes(far)), 8)):  # MICA_ERR_CRC, MICA_ERR_BOUNDS
        source.write_text(text.replace(whole[1], ", ".join(map(str, data))))
        subprocess.run(make, check=True, capture_output=True)
        done = subprocess.run([tmp_path / "build" / "net"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (status, "")


def test_the_header_says_what_is_trusted() -> None:
    assert "trusts that they" in program("small", ["ref"]).files()["src/net.h"]
    assert "checks the whole model" in program("small", ["ref"], True).files()["src/net.h"]


def test_ram_is_the_plans(tmp_path: Path) -> None:
    made = program("golden_state", ["ref"])
    model = decode(encode(SMALL["golden_state"]()))
    assert made.memory.ram == (model.arena_bytes or 0) + made.memory.scratch + (model.state_bytes or 0)
    sources = write(made, tmp_path)
    subprocess.run(["make", "-C", tmp_path, "CFLAGS=-O0 -fno-pic", "LDFLAGS=-no-pie"], check=True, capture_output=True)
    objects = [tmp_path / "build" / f"{path.relative_to(tmp_path)}.o" for path in sources]
    sizes = subprocess.run(["size", *objects], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    data, bss = (sum(int(line.split()[column]) for line in sizes) for column in (1, 2))
    assert (data, bss) == (0, made.memory.ram)


def test_what_needs_micropython_is_refused() -> None:
    model = SMALL["small"]()
    model.steps[0].kernel = "custom_s8"
    with pytest.raises(MicaError, match="custom operator runs in MicroPython only"):
        folder.refuse(model)


def test_wrong_vectors_are_refused() -> None:
    with pytest.raises(MicaError, match="golden vector 1 is not what the model gives"):
        Program(encode(models.golden_old()), "net", ["ref"])


def test_names_and_labels() -> None:
    assert [identifier(stem) for stem in ("kws", "Wake-Word.2", "2nd", "main", "ß")] == [
        "kws", "wake_word_2", "model_2nd", "model_main", "model__"]  # fmt: skip
    assert one_line("a\\") == "a/" and one_line("b??/") == "b../"
    assert c_string('a"b\\?ü') == r'"a\042b\134\077\303\274"'


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "Net-1.mica"
    path.write_bytes(encode(SMALL["two"]()))
    said = mica("cc", path, "-o", tmp_path / "out", "--core", "ref", "--json").json
    assert said["name"] == "net_1" and "src/net_1.h" in said["files"]
    assert (tmp_path / "out" / "examples" / "net_1_self_test" / "net_1_self_test.ino").exists()
    again = mica("cc", path, "-o", tmp_path / "out")
    assert again.code == 1 and "is there already" in again.err


@nightly
@pytest.mark.parametrize("name", ("m0plus", "m33", "rv32"))
def test_kws_is_as_fast_as_in_a_firmware(name: str, tmp_path: Path) -> None:
    """Cycles (M0+) or instructions within 1 % of the engine's steps; at most 30 kB of code on the M0+."""
    core = bare_metal.CORES[name]
    data = compile_file(reference_model("tflite") / "kws_int8.tflite", golden=1).data
    made = Program(data, "net", [core.isa])
    cycles, crc, _ = run_on(core, tmp_path, write(made, tmp_path))
    job = bare_metal.Job("kws", data, made.vectors[0].inputs, scratch=made.memory.scratch)
    whole = sum(bare_metal.run(core, bare_metal.build(core), [job])[0].counts)
    assert crc == made.golden_crc and abs(cycles / whole - 1) <= 0.01
    assert name != "m0plus" or measure_program(data, core.isa)["code"] <= 30_000


@nightly
def test_cmake_builds_it(tmp_path: Path) -> None:
    """A project adds the folder as a library, as pico-sdk's programs do."""
    write(program("golden_state", CORES), tmp_path / "net")
    lines = ["project(app C ASM)", "add_subdirectory(net)", "add_executable(app net/main.c)"]
    lines = ["cmake_minimum_required(VERSION 3.13)", *lines, "target_link_libraries(app net)"]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
    for command in (["cmake", "-S", tmp_path, "-B", tmp_path / "b"], ["cmake", "--build", tmp_path / "b"]):
        subprocess.run(command, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "b" / "app"], check=False, capture_output=True).returncode == 0


def test_fit_measures_it(tmp_path: Path) -> None:
    path = tmp_path / "net.mica"
    path.write_bytes(encode(SMALL["two"]()))
    found = mica("fit", path, "--board", "MPS2_AN385", "--c", "--json").json["c"]
    memory = program("two", ["armv7m"]).memory
    assert (found["constants"], found["ram"]) == (memory.constants, memory.ram)
    assert 200 < found["code"] < 20_000
    assert "in C " in mica("fit", path, "--board", "MPS2_AN385", "--c").out
    assert mica("fit", path, "--board", "MPS2_AN385", "--json").json["c"] is None


# The UARTS of Arm's MPS2 boards and of QEMU's virt machine, for the example's macros; the character 4 ends the program.
UARTS = {
    "m3": (
        "*(volatile unsigned *)0x40004000",
        "*(volatile unsigned *)0x40004004 & 2",
        "*(volatile unsigned *)0x40004008 = 3",
    ),
    "rv32": ("*(volatile unsigned char *)0x10000000", "*(volatile unsigned char *)0x10000005 & 1", "(void)0"),
}
BOARD = """\
#include "board.h"
static inline int serial(void) {{ while (!({full})) {{ }} int c = {data}; return c == 4 ? -1 : c; }}
#define MLPERF_BEGIN() {begin}
#define MLPERF_GET() serial()
#define MLPERF_PUT(c) ({data} = (unsigned char)(c))
#define MLPERF_FLUSH() (void)0
#define MLPERF_MICROSECONDS() ((unsigned long)board_count())
"""


@pytest.mark.parametrize("where", ("here", *UARTS))
def test_the_protocol_of_mlperf_tiny(where: str, tmp_path: Path) -> None:
    """Its commands over a serial line give the results of a golden vector; a picture's bytes have no sign there."""
    core = bare_metal.CORES.get(where)
    if core and (reason := bare_metal.available(core)):
        pytest.skip(reason)
    made = program("small", [core.isa if core else "ref"])
    sources = write(made, tmp_path)
    example = tmp_path / "mlperf.c"
    example.write_text(made.mlperf())
    said = conversation(made)
    if core is None:
        command = [
            "gcc",
            "-std=c99",
            *STRICT,
            *SANITIZED,
            f"-I{tmp_path / 'src'}",
            *sources,
            example,
            "-o",
            tmp_path / "a",
        ]
        subprocess.run(command, check=True)
        out = subprocess.run([tmp_path / "a"], input=said, capture_output=True, text=True, check=True).stdout
    else:
        data, full, begin = UARTS[where]
        main = tmp_path / "bare.c"
        main.write_text(BOARD.format(data=data, full=full, begin=begin) + '#include "mlperf.c"\n')
        out = emulate(core, build_for(core, tmp_path, [*sources, main]), said + chr(4))
    lines = out.replace("\r", "").splitlines()
    assert lines[:4] == ["m-init-done", "m-ready", "m-name-dut-[mica]", "m-ready"]
    assert f"m-[Expecting {made.vectors[0].inputs[0].size} bytes]" in lines and "m-load-done" in lines
    assert [line for line in lines if line.startswith("m-results")] == [f"m-results-[{expected(made)}]"] * 2
    assert sum(line.startswith("m-lap-us-") for line in lines) == 3
    assert {"m-warmup-start-1", "m-infer-start-2", "m-infer-done", "e-[Unknown command: what]"} <= set(lines)

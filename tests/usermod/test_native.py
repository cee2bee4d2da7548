"""The engine as a native module, on firmware that has no mica in it: the scripts of the built-in module, with the same
.exp files; the digits layer by layer; and installing it with the real mpremote.

Building firmware takes long, so on some boards the native module takes the place of the built-in one in the firmware
that other tests use. MICA_STOCK=1 builds and uses firmware without mica on all of them. The Pico's is that of
tests/e2e/test_first_hour.py, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from stock import stock_image
from targets import ALL, GCC_OF_FIGURES, HAS_WINDOWS, arm_gcc, needs_windows, nightly
from test_usermod import SCRIPTS, compared, models, run  # noqa: F401 - models is a fixture

import mica
from mica.boards import load_board, on_stock
from mica.boards.isa import natives
from mica.cli import verify
from mica.cli.main import main
from mica.compile import compile_file
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.file import codec
from mica.run import board as run_board
from mica.toolchain import build, mip_package, native_image, natmod, sources, xtensa_cc
from mica.link.emulated import EmulatedBoard, start_emulator
from mica.link.serial_board import SerialBoard
from mica.link.board import Link, BoardError
from mica.link.unix_board import UnixBoard
from mica.toolchain.micropython import DEFAULT, NEWEST, choose
from mica.resources import data_dir
from mica.run.host import HostRunner

HERE = Path(__file__).parent
CLASSIC = HERE.parent / "models" / "classic"
DEMO = Path(mica.__file__).parent / "demo"
ARCH = {"UNIX": "x64", "MPS2_AN385": "armv7m", "VIRT_RV32": "rv32imc", "RPI_PICO": "armv6m"} | (
    {"QEMU_M0": "armv6m", **({"XTENSA_WIN": "xtensawin"} if HAS_WINDOWS else {})} if ALL else {}
)
STOCK = list(ARCH) if os.environ.get("MICA_STOCK") else ["UNIX", *["MPS2_AN385", *["XTENSA_WIN"] * HAS_WINDOWS] * ALL,
                                                         "RPI_PICO"]

ASIDE = "aside/_mica"  # where the native module lies that takes the place of a built-in one

# Lines of .exp files that are others here. A native module cannot find out whether a memoryview begins where a block of
# the heap does, so a model in a memoryview of bytes is copied.
DIFFERENT = {
    "model_load": {2: "memoryview True True True", 3: "16 in True True True", 12: "kept alive by a view True True"}
}


@functools.cache
def installed(arch: str) -> dict[str, bytes]:
    """Files that a user installs, by path below lib."""
    mp = choose(DEFAULT)
    return {"_mica.mpy": natmod.build(arch, micropython=mp).file.read_bytes(), **mip_package.runtime(micropython=mp)}


@contextlib.contextmanager
def native_board(
    name: str, more: dict[str, bytes] | None = None, version: str = DEFAULT, module: bytes | None = None
) -> Iterator[Link]:
    """A board with mica installed, `module` as its native module if given: on the unix port in its current folder,
    else in its ROMFS, with `more` files."""
    facts = load_board(name)
    stock = name in STOCK and (ALL or version == DEFAULT)
    image = stock_image(name, choose(version)) if stock else build.build(facts, micropython=choose(version)).image
    files = installed(ARCH[name]) | ({} if module is None else {"_mica.mpy": module})
    if facts.port.program:
        files = files if stock else {f"{ASIDE}.mpy": files["_mica.mpy"]}
        with UnixBoard(facts, image) as unix:
            folders = sorted({str(Path(path).parent) for path in files} - {"."})
            unix.exec("import os\n" + "".join(f"os.mkdir({folder!r})\n" for folder in folders))
            for path, data in files.items():
                unix.put(data, "_file")
                unix.exec(f"with open({path!r}, 'wb') as f:\n    f.write(_file)\n_file = None")
            yield unix
        return
    rom = {f"lib/{path}": data for path, data in files.items()} if stock else {}
    with EmulatedBoard(facts, image, rom_files={**rom, f"{ASIDE}.mpy": files["_mica.mpy"], **(more or {})}) as board:
        yield board


def take_native(board: Link) -> None:
    """If the firmware contains mica, replace the built-in module by the native one; check that it is in use."""
    aside = ASIDE.replace("/", ".")
    board.exec(
        f"import sys, _mica\nif not hasattr(_mica, '__file__'):\n import {aside}\n sys.modules['_mica'] = "
        f"sys.modules[{aside!r}]\n"
        # What the boot has imported knows the built-in one.
        " for name in list(sys.modules):\n  if name.split('.')[0] == 'mica': del sys.modules[name]"
    )
    assert board.exec("import _mica\nprint(_mica.__file__)").strip().endswith(b"_mica.mpy")


def run_native(board: Link, name: str, models: dict[str, bytes]) -> str:  # noqa: F811
    board.soft_reset()
    take_native(board)
    return run(board, name, models)


@pytest.fixture(scope="module")
def native_unix() -> Iterator[Link]:
    with native_board("UNIX") as board:
        yield board


@pytest.fixture(scope="module")
def native_newest_unix() -> Iterator[Link]:
    with native_board("UNIX", version=NEWEST) as board:
        assert f"MicroPython v{NEWEST} ".encode() in board.exec("import sys\nprint(sys.version)")
        yield board


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    to = tmp_path_factory.mktemp("native") / "digits.mica"
    words = ["pack", DEMO / "digits.onnx", "-o", to, "--calib", DEMO / "digits_calib.npz", "--plain", "--golden", "2"]
    assert main([str(word) for word in words]) == 0
    return to.read_bytes()


def expected_lines(name: str) -> str:
    lines = (HERE / f"{name}.exp").read_text().splitlines(keepends=True)
    for number, line in DIFFERENT.get(name, {}).items():
        lines[number - 1] = line + "\n"
    return "".join(lines)


def smaller_module(board: str, files: Sequence[bytes]) -> bytes | None:
    """A module with the kernels of these files alone, for a board whose RAM a whole one and a built-in mica leave too
    little of."""
    if board != "QEMU_M0":
        return None
    kernels = {s.kernel for data in files for s in codec.decode(data).steps}
    module = natmod.build(ARCH[board], kernels=kernels, micropython=choose(DEFAULT))
    assert module.file.stat().st_size < len(installed(ARCH[board])["_mica.mpy"])
    return module.file.read_bytes()


# ---- The built-in module's scripts ----


# A soft reset ends the module; its arena is no static one.
@pytest.mark.parametrize("name", [s for s in SCRIPTS if not s.startswith(("soft_reset", "arena_borrow"))])
def test_script(native_unix: Link, name: str, models: dict[str, bytes]) -> None:  # noqa: F811
    assert compared(name, run_native(native_unix, name, models)) == expected_lines(name)


# Between them: every kind of argument, a locked heap, the busy flag. The fastest emulator has more.
ON_EMULATORS = ["predict", "run_heap_locked", "arena_busy"]
USED = ("small", "dense", "two", "many", "state")  # by them
ON_CORTEX_M3 = ["model_corrupt", "raw_kernels", "row_ranges"]


@nightly
@pytest.mark.parametrize("name", ON_EMULATORS)
def test_script_on_newest(native_newest_unix: Link, name: str, models: dict[str, bytes]) -> None:  # noqa: F811
    """A module built with one MicroPython runs on the stock firmware of the other: on each run,
    in tests/e2e/test_release.py."""
    assert run_native(native_newest_unix, name, models) == expected_lines(name)


@pytest.mark.matrix("native module")
@pytest.mark.parametrize(
    ("target", "version"),
    [(name, DEFAULT) for name in ARCH if name != "UNIX"] + [("MPS2_AN385", NEWEST)] * ALL,
)
def test_emulated(
    target: str,
    version: str,
    digits: bytes,
    models: dict[str, bytes],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The digits, byte for byte and layer by layer as on the host; scripts; a soft reset in mid-run; Ctrl-C."""
    name = target
    with native_board(
        name, {"model.mica": digits}, version, smaller_module(name, [digits, *(models[m] for m in USED)])
    ) as board:
        take_native(board)
        assert f"MicroPython v{version} ".encode() in board.exec("import sys\nprint(sys.version)")
        with monkeypatch.context() as patch:
            patch.setattr(run_board, "open_board", lambda target, **settings: board)
            patch.setattr(board, "close", lambda: None)
            with HostRunner(digits) as host, run_board.BoardRunner(digits, board.name) as runner:
                assert not runner.copied  # read where it lies, in the ROMFS
                samples = verify.inputs_for(host, None, None)
                assert verify.verify(host, runner, samples)["equal"]
                x = [host.quantise([x]) for x in np.load(DEMO / "digits_test.npz")["x"][:20]]
                for expected, got in zip(host.run(x), runner.run(x), strict=True):
                    np.testing.assert_array_equal(expected[0], got[0])
        # Threads: one on each of its cores. Messages, which are packed on a Cortex-M0+.
        more = {"MPS2_AN385": ON_CORTEX_M3, "RPI_PICO": ["arena_threads", "model_load"]}.get(name, [])
        for script in ON_EMULATORS + more:
            assert run_native(board, script, models) == expected_lines(script), script
        for script in ("soft_reset_before", "soft_reset_after"):
            assert run_native(board, script, models) == expected_lines(script)
        board.put(models["many"], "many")
        board.exec("import mica\nm = mica.Model(many)\nwant = m.predict([[0, 1, 2, 3]])")
        with pytest.raises(BoardError, match="silent"):
            board.exec("while True:\n    m.run()", timeout=1.0)
        assert board.exec("print(m.arena.busy, m.predict([[0, 1, 2, 3]]) == want)") == b"False True\n"
        if name == "RPI_PICO":
            # Spinlock 15, which keeps the cores apart: nobody holds it now, and who reads it, does.
            assert board.exec("from machine import mem32\nprint(mem32[0xd000013c])") == b"32768\n"
            with pytest.raises(BoardError, match="silent"):
                board.exec("m.predict([[0, 1, 2, 3]])", timeout=2.0)


def test_a_stock_image_of_ones_own(digits: bytes, tmp_path: Path) -> None:
    """mica emu --image: any firmware of an RP2040, found by its chip, with a flash of its own;
    mica fit --native knows the heap that is left."""
    image = tmp_path / "stock.uf2"
    image.write_bytes(stock_image("RPI_PICO").read_bytes())
    env = {**os.environ, "MICA_FLASH": str(tmp_path / "flash.bin")}
    command = [sys.executable, "-m", "mica", "emu", "--image", str(image), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as emulator:
        try:
            assert emulator.stdout is not None
            said = json.loads("".join(iter(emulator.stdout.readline, "}\n")) + "}")
            assert said["board"] == "RPI_PICO"
            with SerialBoard(said["port"], name="stock") as board:
                with pytest.raises(BoardError, match="ImportError: no module named 'mica'"):
                    board.exec("import mica")
                free = int(board.exec("import gc\ngc.collect()\nprint(gc.mem_free())"))
        finally:
            emulator.terminate()
    facts = load_board("RPI_PICO")
    assert abs(free - facts.stock_heap) < 1024
    with native_board("RPI_PICO", {"digits.mica": digits}) as board:
        board.exec("import gc, mica\nm = mica.Model('/rom/digits.mica')\nm.predict([[0] * 64])\ngc.collect()")
        left = int(board.exec("print(gc.mem_free())"))
    native = on_stock(facts, facts.stock_heap)
    beside = predict(codec.decode(digits), digits, native, Table.read()).ram["tables"]
    assert 0 <= left - (native.heap - beside) < 4096


# ---- Installing: on each run tests/e2e/test_first_hour.py does so on a Pico ----


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by the command itself."""
    folder = tmp_path_factory.mktemp("package") / "mica"
    assert main(["natmod", "--package", str(folder), "--arch", "x64", "--arch", "armv7m"]) == 0
    return folder


def test_package(package: Path) -> None:
    """Every file that the package names is there. The runtime is all of firmware/mica but kernels that none needs."""
    sources = data_dir("firmware")
    for arch in ("x64", "armv7m"):
        listed = json.loads((package / f"{arch}.json").read_text())
        assert listed["version"] == mica.__version__
        paths = [path for path, _ in listed["urls"]]
        assert all((package / url).is_file() for _, url in listed["urls"])
        runtime = (p.relative_to(sources).with_suffix(".mpy").as_posix() for p in sources.rglob("mica/**/*.py"))
        kept = [path for path in runtime if not path.startswith("mica/fallback/")]
        assert sorted(paths) == sorted(["_mica.mpy", *kept])


@nightly
def test_install_chooses_on_a_board(package: Path, digits: bytes) -> None:
    """install.py takes the engine that the firmware loads, from the mounted folder by the real mpremote."""
    with start_emulator(load_board("MPS2_AN385"), stock_image("MPS2_AN385"), keep_flash=False) as emulator:
        command = [
            sys.executable,
            "-m",
            "mpremote",
            "connect",
            emulator.port,
            "mount",
            package,
            "run",
            package / "install.py",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ": /lib/_mica.mpy" in done.stdout
        with SerialBoard(emulator.port, name="MPS2_AN385") as board:
            board.exec("import sys\nsys.path.append('/lib')")
            board.put(digits, "digits")
            said = board.exec("import mica, _mica\nm = mica.Model(digits)\nprint(_mica.__file__, m.selftest())")
    assert said == b"/lib/_mica.mpy None\n"


@nightly
@needs_windows
def test_mip_install_with_windows(digits: bytes, tmp_path: Path) -> None:
    """mpremote installs the module from a folder that is served, as for a user of an ESP32."""
    assert main(["natmod", "--package", str(tmp_path), "--arch", "xtensawin"]) == 0
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        start_emulator(load_board("XTENSA_WIN"), stock_image("XTENSA_WIN"), keep_flash=False) as emulator,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/xtensawin.json"
        mpremote = [sys.executable, "-m", "mpremote", "connect", emulator.port]
        command = [*mpremote, "mip", "install", "--target", "/lib", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        server.shutdown()
        assert done.returncode == 0, done.stdout + done.stderr
        with SerialBoard(emulator.port, name="XTENSA_WIN") as board:
            board.exec("import sys\nsys.path.append('/lib')")
            board.put(digits, "digits")
            said = board.exec("import mica, _mica\nm = mica.Model(digits)\nprint(_mica.__file__, m.selftest())")
    assert said == b"/lib/_mica.mpy None\n"


# What MicroPython's installer does with the address of one file, or with one that cannot be had.
MIP = """
import sys
class mip:
    def install(url, target):
        import os
        asked.append(url)
        os.mkdir(target)
        with open(url.replace("http://host", package), "rb") as f, open(target + "/" + url.split("/")[-1], "wb") as g:
            g.write(f.read())
asked = []
sys.modules["mip"] = mip
"""


def test_install_chooses(package: Path, tmp_path: Path) -> None:
    """The same on the unix port, from a folder and from an address.
    A file that is not the package's, such as one that a server was made to give, is never installed,
    and the old one stays."""
    forged = tmp_path / "forged"
    shutil.copytree(package, forged)
    for name in ("x64/_mica.mpy", "mica/learn.mpy"):
        (forged / name).write_bytes((package / name).read_bytes() + b"\0")
    with UnixBoard(load_board("UNIX"), stock_image("UNIX")) as unix:
        unix.exec(
            f"package = {str(package)!r}\nimport sys\nsys.path.insert(0, package)\nimport install\ndel sys.path[0]"
        )
        unix.exec(MIP)
        for source in (str(package), "http://host"):
            unix.exec(f"install.install({source!r}, 'lib')")
        asked = unix.exec("print(len(asked) == len(set(asked)) == len(install.SUMS) - 1, asked[0])").decode()
        assert asked == "True http://host/x64/_mica.mpy\n"  # and no other engine
        unix.exec("import os\nassert not [n for n in os.listdir('lib') + os.listdir('lib/mica') if n.endswith('.new')]")
        unix.exec(f"package = {str(forged)!r}")
        for source in (str(forged), "http://host"):
            with pytest.raises(
                BoardError, match=r"x64/_mica\.mpy is not the file of this package: its SHA-256 differs"
            ):
                unix.exec(f"install.install({source!r}, 'lib')")
        with pytest.raises(BoardError, match="OSError"):
            unix.exec("install.install('nowhere', 'lib')")
        with pytest.raises(BoardError, match="knows no engine for x64: mica natmod --package DIR --arch x64"):
            unix.exec("kept = install.SUMS.pop('x64/_mica.mpy')\ninstall.install(package, 'lib')")
        assert unix.exec("sys.path.append('lib')\nimport mica, _mica\nprint(_mica.__file__)") == b"lib/_mica.mpy\n"


def test_says_what_is_missing(native_unix: Link) -> None:
    """`import mica` without the engine, and with that of another processor: one line with the command."""
    native_unix.soft_reset()
    line = "on the computer: mica push M.mica --yes, or mpremote mip install --index URL mica@x64"
    native_unix.exec("import os\nos.rename('_mica.mpy', 'kept')")
    try:
        with pytest.raises(BoardError, match=f"ImportError: mica: the engine is missing; {line}"):
            native_unix.exec("import mica")
        native_unix.put(installed("armv7m")["_mica.mpy"], "other")
        native_unix.exec("with open('_mica.mpy', 'wb') as f:\n    f.write(other)")
        with pytest.raises(BoardError) as wrong:
            native_unix.exec("import mica")
        assert str(wrong.value).startswith("ImportError: mica: _mica.mpy does not fit (") and line in str(wrong.value)
    finally:
        native_unix.exec("os.rename('kept', '_mica.mpy')")
    assert native_unix.exec("import mica\nprint(mica.__version__)") == f"{mica.__version__}\n".encode()


def test_ram_of_a_whole_module() -> None:
    """Code, constants and variables of all kernels on a Cortex-M0+, whose RAM is dearest. isa.toml is for any GCC."""
    module = natmod.build("armv6m", micropython=choose(DEFAULT))
    assert not module.without
    assert module.text + module.bss <= (141_300 if arm_gcc() == GCC_OF_FIGURES else natives()["armv6m"].ram)


def test_packed_messages() -> None:
    """Every message comes back from its packed bytes, all of which are less than 0.6 of the texts;
    ends of others lie in those."""
    texts = {text.encode() for text in natmod._messages()}
    assert b"give a file that `mica pack` wrote" in texts and b"conv2d_s8" not in texts
    packed, pairs = native_image.pack(texts)
    assert {native_image.unpack(packed[text], pairs) for text in texts} == texts
    assert all(native_image.unpack(packed[text], pairs) == text for text in texts)
    assert sum(map(len, packed.values())) + 2 * len(pairs) < 0.6 * sum(map(len, texts))
    lies, joined = native_image.joined([b"bc", b"abc", b"", b"x", b"c"])
    assert all(joined[at : at + len(text) + 1] == text + b"\0" for text, at in lies.items())
    assert len(joined) == len(b"abc\0x\0")


@pytest.mark.matrix("native module")
@pytest.mark.parametrize("target", ["UNIX"])
def test_for_a_model(target: str, digits: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--for leaves out kernels that the model does not need: the module is smaller, the model runs in C, and others
    name their missing kernels. Decision trees are compiled: such a model answers though its tables are spoilt after it
    was loaded, and another one runs from its tables."""
    (tmp_path / "digits.mica").write_bytes(digits)
    with np.load(CLASSIC / "forest.npz") as data:
        forest = compile_file(CLASSIC / "forest.onnx", {"x": data["x"]}).data
        x = data["test/x"][0].astype(np.float32)
    (tmp_path / "forest.mica").write_bytes(forest)
    files = [str(tmp_path / f"{name}.mica") for name in ("digits", "forest")]
    assert main(["natmod", "--arch", "x64", "--for", *files, "-o", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["modules"][0]
    needed = {step.kernel for data in (digits, forest) for step in codec.decode(data).steps}
    assert needed.isdisjoint(facts["without"]) and "recurrent_s8" in facts["without"]
    module = (tmp_path / "_mica.mpy").read_bytes()
    assert len(module) < 0.8 * len(installed("x64")["_mica.mpy"])
    with native_board(target, module=module) as board:
        take_native(board)
        board.put(digits, "model")
        board.exec("import mica\nm = mica.Model(model)")
        assert board.exec("print({l.runs_in for l in m.layers}, m.selftest())") == b"{'C'} None\n"
        kernels = board.exec("import _mica\nprint(sorted(_mica.info().kernels))").decode()
        assert kernels == f"{sorted(needed)}\n"
        for data, own in ((forest, True), (another(forest), False)):
            with HostRunner(data) as runner:
                answer = [np.asarray(y).tobytes() for y in runner.run([[x[None]]])[0]]
            board.put(data, "model")
            board.put(x.tobytes(), "x")
            board.exec("import array, uctypes\nm = mica.Model(model)\nassert not m.copied")
            ask = "m.input(0)[:] = array.array('f', x)\nm.run()\nprint([bytes(m.output(i)) for i in range(2)])"
            assert board.exec(ask).decode() == f"{answer}\n"
            table = next(s for s in codec.decode(data).steps if s.kernel == "forest_s8").blobs["leaves"].tobytes()
            at = data.index(table)
            board.exec(f"uctypes.bytearray_at(uctypes.addressof(model) + {at}, {len(table)})[:] = bytes({len(table)})")
            assert (board.exec(ask).decode() == f"{answer}\n") == own


def another(forest: bytes) -> bytes:
    """The forest with other values in its leaves, of the same lengths."""
    model = codec.decode(forest)
    step = next(s for s in model.steps if s.kernel == "forest_s8")
    step.blobs["leaves"] = (step.blobs["leaves"] & 0xFFFF) | ((step.blobs["leaves"] >> 17) << 16)
    return codec.encode(model)


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """mica natmod: a file and its facts; mistakes are one line."""
    assert main(["natmod", "--arch", "x64", "-o", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["modules"][0]
    file = Path(facts["file"])
    assert file == tmp_path / "_mica.mpy" and facts["size"] == file.stat().st_size
    assert facts["arch"] == "x64" and facts["kernels"] == "ref" and 0 < facts["bss"] < facts["text"] < facts["size"]
    assert facts["without"] == []
    assert file.read_bytes()[:2] == b"M\x06"
    for words, said in (
        (["--arch", "z80"], "no architecture is called 'z80'"),
        ([], "give one --arch"),
        (["--board", "UNIX", "--arch", "armv6m"], "give one --arch"),
        (["--arch", "x64", "-o", str(file)], "cannot write"),
        (["--package", str(file), "--arch", "x64"], "cannot write"),
    ):
        assert main(["natmod", *words]) == 1
        assert said in capsys.readouterr().err


def test_no_compiler_for_windows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If parts of the compiler cannot be had, one line says which."""
    monkeypatch.setattr(xtensa_cc, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(xtensa_cc, "HEADERS", tmp_path)
    monkeypatch.setattr(sources, "debian_mirror", lambda: None)
    assert main(["natmod", "--arch", "xtensawin", "-o", str(tmp_path)]) in (1, 2)
    said = capsys.readouterr().err.splitlines()[-1]
    assert "xtensawin needs a compiler with register windows: gcc-xtensa-lx106 of Debian trixie would be needed" in said
    assert not (tmp_path / "_mica.mpy").exists()


def test_library_for_windows(tmp_path: Path) -> None:
    """GCC's products, divisions, shifts, byte swaps and conversions there, one on Cortex-M0 too, equal those of Python
    and numpy."""
    library = tmp_path / "xtensawin.so"
    files = [data_dir("usermod_c") / "natmod" / name for name in ("xtensawin.c", "l2f.c")]
    flags = [
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-DLIBGCC(name)=mica_##name",
        "-DL2F=mica_floatdisf",
    ]
    subprocess.run(["gcc", *flags, "-o", library, *files], check=True)
    code = ctypes.CDLL(str(library))
    rng = np.random.default_rng(0)
    numbers = [
        int(x) >> int(n)
        for x, n in zip(rng.integers(-(1 << 63), 1 << 63, 3000), rng.integers(0, 64, 3000), strict=True)
    ]
    numbers += [
        0,
        1,
        -1,
        (1 << 63) - 1,
        -(1 << 63),
        (1 << 24) + 1,
        (1 << 25) + 2,
        (1 << 40) + (1 << 16),
        (1 << 40) + (3 << 15) + 1,
    ]
    for name, kind in (("ashldi3", ctypes.c_uint64), ("lshrdi3", ctypes.c_uint64), ("ashrdi3", ctypes.c_int64)):
        function = getattr(code, f"mica_{name}")
        function.restype, function.argtypes = kind, [kind, ctypes.c_int]
        for i, x in enumerate(numbers):
            value = kind(x).value
            expected = kind(value << i % 64).value if name == "ashldi3" else value >> i % 64
            assert function(value, i % 64) == expected, (name, value, i % 64)
    pairs = list(zip(numbers, [*numbers[1:], numbers[0]], strict=True))
    for name, kind in (("udivdi3", ctypes.c_uint64), ("divdi3", ctypes.c_int64)):
        divide, rest = getattr(code, f"mica_{name}"), getattr(code, f"mica_{name.replace('div', 'mod')}")
        divide.restype = rest.restype = kind
        divide.argtypes = rest.argtypes = [kind, kind]
        for n, d in pairs:
            a, b = kind(n).value, kind(d).value
            if b != 0:
                q = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
                assert (divide(a, b), rest(a, b)) == (kind(q).value, a - q * b), (name, a, b)
    for name, half in (("umulsidi3", ctypes.c_uint32), ("muldi3", ctypes.c_uint64)):
        product = getattr(code, f"mica_{name}")
        product.restype, product.argtypes = ctypes.c_uint64, [half, half]
        for n, d in pairs:
            a, b = half(n).value, half(d).value
            assert product(a, b) == a * b % 2**64, (name, a, b)
    code.mica_bswapsi2.restype, code.mica_bswapsi2.argtypes = ctypes.c_uint32, [ctypes.c_uint32]
    for x in numbers:
        assert code.mica_bswapsi2(x % 2**32) == int.from_bytes((x % 2**32).to_bytes(4, "little"), "big"), x
        assert code.mica_popcountsi2(x % 2**32) == bin(x % 2**32).count("1"), x
    code.mica_bswapdi2.restype, code.mica_bswapdi2.argtypes = ctypes.c_uint64, [ctypes.c_uint64]
    code.mica_floatsidf.restype, code.mica_floatsidf.argtypes = ctypes.c_double, [ctypes.c_int32]
    for x in numbers:
        assert code.mica_bswapdi2(x % 2**64) == int.from_bytes((x % 2**64).to_bytes(8, "little"), "big"), x
        assert code.mica_floatsidf(x) == ctypes.c_int32(x).value, x
    wide, narrow = code.mica_extendsfdf2, code.mica_truncdfsf2
    wide.restype, wide.argtypes = ctypes.c_double, [ctypes.c_float]
    narrow.restype, narrow.argtypes = ctypes.c_float, [ctypes.c_double]
    bits = np.array([x % 2**32 for x in numbers] + [1, 0x7FFFFF, 0x800000, 0x7F800000, 0xFF800000], dtype=np.uint32)
    doubles = np.array([x % 2**64 for x in numbers], dtype=np.uint64).view(np.float64)
    near = np.exp2(rng.uniform(-152, 129, 3000)) * rng.choice([1, -1, 1.5], 3000)
    ties = (rng.integers(1, 1 << 25, 3000) * 2.0 ** rng.integers(-151, 105, 3000)).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for f in bits.view(np.float32):
            np.testing.assert_equal(wide(f), float(f))
        for d in (*doubles, *near, *ties):
            np.testing.assert_equal(narrow(d), float(d.astype(np.float32)))
    code.mica_floatdisf.restype, code.mica_floatdisf.argtypes = ctypes.c_float, [ctypes.c_int64]
    for x in numbers:
        assert code.mica_floatdisf(x) == np.int64(x).astype(np.float32), x


def test_float_division(tmp_path: Path) -> None:
    """Our float division for Cortex-M0 equals this computer's: special values, ties, subnormals, random bits."""
    library = tmp_path / "fdiv.so"
    source = data_dir("usermod_c") / "natmod" / "fdiv.c"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DFDIV=mica_fdiv"]
    subprocess.run(["gcc", *flags, "-o", library, source], check=True)
    divide = ctypes.CDLL(str(library)).mica_fdiv
    divide.restype, divide.argtypes = ctypes.c_float, [ctypes.c_float, ctypes.c_float]
    rng = np.random.default_rng(0)
    special = np.array(
        [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F800001, 0x40400000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000],
        dtype=np.uint32,
    )
    special = np.concatenate([special, special | np.uint32(0x80000000)])
    a, b = (m.reshape(-1) for m in np.meshgrid(special, special))
    bits = rng.integers(0, 1 << 32, (2, 40_000), dtype=np.uint32)
    bits[1, ::2] = (bits[0, ::2] & 0x7F800000) ^ (bits[1, ::2] & 0x80FFFFFF)  # exponents side by side
    bits[0, 1::4] &= 0x80FFFFFF  # small ones
    a, b = np.concatenate([a, bits[0]]).view(np.float32), np.concatenate([b, bits[1]]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = a / b
    got = np.array([divide(x, y) for x, y in zip(a, b, strict=True)], dtype=np.float32)
    same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), list(zip(a[~same], b[~same], got[~same], expected[~same], strict=True))[:5]

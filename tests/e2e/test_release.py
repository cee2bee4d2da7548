"""`scripts/release` in a small form, made twice: the wheels, native modules, and one board,
whose image starts in the virtual Pico and answers.

The wheel, built through the sdist, works outside a checkout: boards/, firmware/ and usermod_c/ travel inside it.
The lines of host_tools/docs/install.md are typed, with the folder on a server of this computer.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers import ROOT
from stock import stock_image
from targets import ALL, nightly

from mica.boards import load_board
from mica.link.emulated import start_emulator
from mica.link.serial_board import SerialBoard
from mica.link.unix_board import UnixBoard
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.build import BuildResult
from mica.toolchain.micropython import DEFAULT, NEWEST, choose

NO_IDF = "ESP32_GENERIC"
KERAS = ROOT / "host_tools" / "docs" / "examples" / "keras"
PAGE = (ROOT / "host_tools" / "docs" / "install.md").read_text(encoding="utf-8")
ARCHS = ("x64", "armv7m", "armv6m", "rv32imc")  # those that tests/usermod/test_native.py builds, too
PARTS = ("wheel", "images", "natmod", *(["web"] if ALL else []))

# README's digits through mica as a library, where no package of an extra can be imported.
DIGITS_IN_PYTHON = """
import sys
from importlib.resources import files
for name in ("PIL", "paho", "starlette", "uvicorn", "nats", "soundfile", "soxr", "esptool"):
    sys.modules[name] = None
import numpy as np
import mica
demo = files("mica.demo")
packed = mica.pack(demo / "digits.onnx", np.load(demo / "digits_calib.npz")["x"], board="RPI_PICO")
test = np.load(demo / "digits_test.npz")
y = mica.load(packed.data).predict(test["x"] * test["scale"])
from mica import engine
print(engine.AVAILABLE, round((y.argmax(axis=1) == test["y"]).mean(), 3))
"""

# All of them in one program: to start one takes longer than what is looked at.
HELP_OF_EACH = """
import sys
from mica.cli.main import main
for name in sys.argv[1:]:
    try:
        main([name, "-h"])
    except SystemExit as end:
        print("code", end.code)
"""


NEEDS_MORE = """
import contextlib, io, shutil, sys
from importlib.resources import files
for name in ("PIL", "paho", "starlette", "uvicorn", "nats", "soundfile", "soxr", "esptool"):
    sys.modules[name] = None
from mica.cli.main import main
shutil.copy(files("mica.demo") / "command.mica", "c.mica")
for line in (
    "build --board UNIX", "build --board RPI_PICO", "build --board ESP32_GENERIC", "natmod --arch armv6m",
    "emu RPI_PICO", "verify c.mica --on MPS2_AN385", "verify c.mica --on UNIX", "bench c.mica --on RPI_PICO@emu",
    "push c.mica --on RPI_PICO@emu", "web -o site", "demo",
):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(line.split())
    print(line, "->", code, said.getvalue().strip().splitlines()[-1])
"""

# A client of an index of packages for MicroPython, after docs/reference/packages.rst.
MIP = """
import sys
class mip:
    def install(package, index, version, target):
        import json, os
        listed = json.loads(get(f"{index}/package/{sys.implementation._mpy & 255}/{package}/{version}.json"))
        for path, digest in listed["hashes"]:
            path = f"{target}/{path}"
            for i in [i for i, c in enumerate(path) if c == "/"]:
                try:
                    os.mkdir(path[:i])
                except OSError:
                    pass
            with open(path, "wb") as f:
                f.write(get(f"{index}/file/{digest[:2]}/{digest}"))
def get(url):
    import socket
    _, _, host, path = url.split("/", 3)
    s = socket.socket()
    s.connect(socket.getaddrinfo(*host.split(":"))[0][-1])
    s.write(f"GET /{path} HTTP/1.0\\r\\n\\r\\n")
    assert s.readline().split()[1] == b"200", url
    while s.readline().strip():
        pass
    return s.read()
sys.modules["mip"] = mip
"""


def release(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key that signs, and beside it the file of public keys that may."""
    folder = tmp_path_factory.mktemp("key")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / "key", cwd=folder)
    (folder / "allowed_signers").write_text("mica " + (folder / "key.pub").read_text())
    return folder / "key"


def small_release(work: Path, key: Path) -> Path:
    """The page's line, typed in another folder, with options that leave most of it out."""
    (line,) = (line for line in lines() if "release" in line)
    program, *words = line.split()
    options = [*(f"--arch={arch}" for arch in ARCHS), *(f"--part={part}" for part in PARTS), "--key", key]
    run(ROOT / program, *words, "--board", "RPI_PICO", "--board", NO_IDF, *options, cwd=work)
    return work / words[-1]


@pytest.fixture(scope="module")
def made(firmware: Callable[[str], BuildResult], tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    firmware("RPI_PICO")
    return small_release(tmp_path_factory.mktemp("release"), key)


@nightly
def test_the_same_bytes(made: Path, key: Path, tmp_path: Path) -> None:
    """The same revision once more, in another folder."""
    again = small_release(tmp_path, key)
    first, second = ({p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()} for folder in (made, again))
    assert set(first) == set(second)
    assert [name for name in first if first[name].read_bytes() != second[name].read_bytes()] == []


@nightly
def test_families(tmp_path: Path) -> None:
    """A package of its own for a family of models, with a smaller native module."""
    done = release("-o", tmp_path / "out", "--part=natmod", "--arch=armv6m", "--family=vision")
    assert done.returncode == 0, done.stderr
    sizes = {}
    for name in ("mica", "mica-vision"):
        (index,) = (tmp_path / "out" / "package").glob(f"*/{name}/armv6m.json")
        (module,) = [digest for path, digest in json.loads(index.read_text())["hashes"] if path == "_mica.mpy"]
        sizes[name] = (tmp_path / "out" / "file" / module[:2] / module).stat().st_size
    assert sizes["mica-vision"] < 0.7 * sizes["mica"]


def test_everything_is_there(made: Path) -> None:
    """Files, manifest and SHA256SUMS agree; a missing file is listed with a reason that a person can act on."""
    manifest = json.loads((made / "manifest.json").read_text())
    files = {entry["file"]: entry for entry in manifest["files"]}
    assert set(files) == {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()} - {
        "manifest.json",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.count(": OK") == len(files)
    for name, entry in files.items():
        data = (made / name).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    kinds = [entry["kind"] for entry in files.values()]
    assert kinds.count("wheel") == kinds.count("pure wheel") == kinds.count("sdist") == 1
    page = (made / "index.html").read_text()
    for name, entry in files.items():
        listed = f'<a href="{name}">{name}</a><td>{entry["bytes"]:,}<td>{entry["sha256"]}\n'
        assert (listed in page) == (entry["kind"] not in ("index", "description")), name
    bill = json.loads((made / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", manifest["mica"])
    parts = {part["name"]: part for part in bill["components"]}
    assert {"numpy", "onnx", "micropython", "rp2040js"} <= set(parts)
    for name, entry in files.items():
        if entry["kind"] != "description":
            assert parts[name]["hashes"] == [{"alg": "SHA-256", "content": entry["sha256"]}]
    made_for = {entry["board"]: entry for entry in files.values() if entry["kind"] == "firmware"}
    assert made_for["RPI_PICO"]["compiler"].startswith("arm-none-eabi-gcc")
    skipped = {entry["what"]: entry["why"] for entry in manifest["skipped"]}
    assert set(made_for) | set(skipped) == {"RPI_PICO", NO_IDF, "CircuitPython's native modules"}
    if NO_IDF in skipped:
        assert "ESP-IDF" in skipped[NO_IDF]
    revision = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    assert manifest["revision"].removesuffix("-dirty") == revision.strip()


def test_notices(made: Path) -> None:
    """The notices name everyone whose code is in a Pico's firmware. They are found from the map: no list names them."""
    (path,) = made.glob("*RPI_PICO.uf2.NOTICES.txt")
    text = path.read_text()
    words = " ".join(text.split())
    for expected in (
        "the mica authors",
        "Damien P. George",
        "Permission is hereby granted, free of charge",
        "Raspberry Pi",
        "Redistributions in binary form must reproduce the above copyright notice",
        "Ha Thach (tinyusb.org)",
        "The littlefs authors",
        "ChaN",
        "Mbed TLS Contributors",
        "of the compiler (package libnewlib-arm-none-eabi)",
    ):
        assert expected in words, expected
    assert "of unknown licence" not in text
    for built in ROOT, Path.home():  # folders of a root may lie right below /
        assert not re.search(rf"(?<!\w){re.escape(str(built))}/", text)
    unix_only = "ports/unix/"
    assert unix_only not in text


def test_the_wheel_has_what_commands_need(made: Path) -> None:
    """The wheel has the data of all commands, and is small. It serves all Pythons from 3.11,
    and systems with an old C library."""
    (wheel,) = made.glob("*.whl")
    assert sys.platform != "linux" or "-cp311-abi3-manylinux" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    for expected in (
        "mica/cost/table.json",
        "mica/demo/digits.onnx",
        "mica/_data/boards/RPI_PICO/board.toml",
        "mica/toolchain/archives.sha256",
    ):
        assert expected in names
    assert wheel.stat().st_size <= 2_720_000
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"mica", "mica_fleet"}
    assert "mica/demo/command.onnx" not in names


def test_the_first_line_answers(made: Path) -> None:
    """The image as it is handed out, on a flash that was empty."""
    (image,) = made.glob("*RPI_PICO.uf2")
    with VirtualPico(load_board("RPI_PICO"), image, keep_flash=False) as pico, SerialBoard(pico.port) as board:
        said = board.exec('import mica; m = mica.Model("/rom/digits.mica"); print(m.name, m.copied, m.selftest())')
    assert said.decode().split() == ["digits", "False", "None"]


def test_what_the_workflow_publishes(made: Path, key: Path, tmp_path: Path) -> None:
    """Its script takes the files that people take, and refuses a folder that was changed, or signed by another key."""
    script, assets, signers = ROOT / ".github" / "publish.sh", tmp_path / "assets", key.with_name("allowed_signers")
    run(script, made, assets, signers, cwd=tmp_path)
    names = {path.name for path in assets.iterdir()}
    assert {path.name for path in [*made.glob("*.whl"), *made.glob("pure/*"), *made.glob("*.uf2")]} < names
    assert {"SHA256SUMS", "SHA256SUMS.sig", "sbom.json", "mica-mip.tar.gz", "NOTES.txt"} < names
    changed = tmp_path / "changed"
    shutil.copytree(made, changed)
    (changed / "digits.mica").write_bytes(b"")
    assert "digits.mica: FAILED" in run(script, changed, tmp_path / "more", signers, cwd=tmp_path, code=1)
    sums = changed / "SHA256SUMS"
    sums.write_text(re.sub(r".*digits.mica\n", f"{hashlib.sha256(b'').hexdigest()}  digits.mica\n", sums.read_text()))
    assert "incorrect signature" in run(script, changed, tmp_path / "forged", signers, cwd=tmp_path, code=255)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other", cwd=tmp_path)
    (changed / "SHA256SUMS.sig").unlink()
    run("ssh-keygen", "-q", "-Y", "sign", "-n", "mica", "-f", tmp_path / "other", sums, cwd=tmp_path)
    run(script, changed, tmp_path / "other's", signers, cwd=tmp_path, code=255)


def test_the_lines_that_verify(made: Path, url: str, key: Path, tmp_path: Path) -> None:
    """The page's lines, in a shell."""
    (block,) = re.findall(r"<!-- typed by the test of install.md, in a shell -->\n```\n(.*?)```", PAGE, flags=re.S)
    shutil.copy(key.with_name("allowed_signers"), tmp_path)
    (wheel,) = made.glob("*.whl")
    typed = block.replace("URL", url).replace("WHEEL", wheel.name).replace("curl", "curl -s")
    said = run("sh", "-ec", typed, cwd=tmp_path)
    assert re.search(r'Good "mica" signature', said) and f"{wheel.name}: OK" in said
    (tmp_path / "SHA256SUMS").write_text("")
    assert "Could not verify" in run("sh", "-ec", typed.split("\n", 1)[1], cwd=tmp_path, code=255)


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    done = release("-o", tmp_path, "--part", "wheel")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"release: {tmp_path} is there and not empty; name another folder"
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


# ---- On a server ----


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url(made: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=made)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def lines() -> list[str]:
    """The page's lines for a shell, but those that need a board."""
    blocks = re.findall(r"<!-- typed by the test of install.md -->\n```\n(.*?)```", PAGE, flags=re.S)
    return [line for block in blocks for line in block.splitlines()]


def run(*command: object, cwd: Path, code: int = 0, **environ: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + (done.stderr if code else "")


@pytest.fixture(scope="module")
def installed(made: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment into which the page's line has installed the wheel, away from the checkout.
    It borrows the packages that mica needs."""
    work = tmp_path_factory.mktemp("package")
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=work)
    python = work / "env" / "bin" / "python"
    (wheel,) = made.glob("*.whl")
    (line,) = (line for line in lines() if line.startswith("pip"))
    words = line.replace("URL", url).replace("WHEEL", wheel.name).split()[1:]
    run(sys.executable, "-m", "pip", "--python", python, *words, "--no-deps", "--no-index", cwd=work)
    (site,) = (work / "env" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["platlib"])
    (work / "elsewhere").mkdir()
    for name in ("net.tflite", "samples.npz", "labelled.npz"):
        (work / "elsewhere" / name).symlink_to(KERAS / name)
    where = run(python, "-c", "import mica; print(mica.__file__)", cwd=work / "elsewhere")
    assert Path(where.strip()).is_relative_to(site)
    return work / "env"


def python(installed: Path, code: str, *args: object, **environ: str) -> str:
    """Return the text that a program prints with the installed mica."""
    return run(installed / "bin" / "python", "-c", code, *args, cwd=installed.parent / "elsewhere", **environ)


def mica(installed: Path, *args: object, **more: object) -> str:
    return run(installed / "bin" / "mica", *args, cwd=installed.parent / "elsewhere", **more)  # type: ignore[arg-type]


def test_three_commands_without_a_compiler(installed: Path) -> None:
    """The page's three lines with a .tflite, and the same with the digits.
    PATH is empty, so no program can be started."""
    typed = [line.split()[1:] for line in lines() if line.startswith("mica") and "push" not in line]
    assert [words[0] for words in typed] == ["pack", "fit", "run"]
    *_, said = (mica(installed, *words, PATH="") for words in typed)
    assert re.search(r"1x10\n +\[6\] +0\.99", said)
    demo = next(installed.glob("lib/python*/site-packages/mica/demo"))
    mica(installed, "pack", demo / "digits.onnx", "--calib", demo / "digits_calib.npz", "-o", "digits.mica", PATH="")
    facts = json.loads(mica(installed, "fit", "digits.mica", "--board", "RPI_PICO", "--json", PATH=""))
    assert facts["fits"] is True and facts["time"]["total"] > 100_000  # the cost table travels too
    answer = json.loads(mica(installed, "run", "digits.mica", demo / "digits_test.npz", "--json", PATH=""))
    assert len(answer["outputs"][0]["int8"]) == 10
    assert list(demo.parent.glob("engine/_engine*"))


def test_the_wheel_of_python_alone(made: Path, tmp_path: Path) -> None:
    """Its files stand for an installation where no engine fits: numpy gives the same answers."""
    (wheel,) = made.glob("pure/*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        listed = [line.split(",")[0] for line in archive.read("mica_mcu-0.1.0.dist-info/RECORD").decode().splitlines()]
        assert sorted(listed) == sorted(archive.namelist())
    assert not list(tmp_path.rglob("*.so"))
    printed = run(sys.executable, "-c", DIGITS_IN_PYTHON, cwd=tmp_path, PYTHONPATH=str(tmp_path), PATH="")
    compiled, right = printed.split()
    assert compiled == "False" and float(right) > 0.95


def test_a_command_that_needs_more_says_what(installed: Path, tmp_path: Path) -> None:
    """With an empty PATH and no package of an extra, in one program: each command's last line names what to install."""
    said = python(installed, NEEDS_MORE, PATH="", MICA_CACHE=str(tmp_path)).splitlines()
    assert len(said) == 11
    for line in said:
        command, _, error = line.partition(" -> ")
        assert re.match(r"1 mica: error: .*(install|needs the Python package) ?", error), (command, error)


def test_every_command_is_there(installed: Path) -> None:
    """Each command imports the modules that it needs, and prints its options."""
    said = mica(installed, "-h")
    names = re.findall(r"^    ([a-z]+)  ", said, flags=re.M)
    assert {"pack", "run", "fit", "flash", "doctor", "build"} <= set(names)
    helps = python(installed, HELP_OF_EACH, *names).split("usage: mica ")[1:]
    assert [text.split()[0] for text in helps] == names
    assert all(text.endswith("\ncode 0\n") for text in helps)


@nightly
def test_build(installed: Path) -> None:
    """boards/, firmware/ and usermod_c/ travel in the wheel."""
    built = json.loads(mica(installed, "build", "--board", "UNIX", "--json"))
    said = run(built["image"], "-c", "import mica; print(mica.Model)", cwd=installed.parent / "elsewhere")
    assert "class" in said


# ---- On boards with stock MicroPython ----

CASES = [("RPI_PICO", DEFAULT)]  # whose stock firmware other tests use, too
CASES += [("RPI_PICO", NEWEST), *((b, v) for b in ("MPS2_AN385", "VIRT_RV32") for v in (DEFAULT, NEWEST))] * ALL
ARCH = {"MPS2_AN385": "armv7m", "RPI_PICO": "armv6m", "VIRT_RV32": "rv32imc"}
FIRST_LINE = 'import sys\nsys.path.append("/lib")\nimport mica\nm = mica.Model(digits)\nprint(m.name, m.selftest())'


@pytest.mark.parametrize(("name", "version"), CASES)
def test_mpremote_installs(name: str, version: str, made: Path, url: str) -> None:
    """The page's line, by the real mpremote."""
    (line,) = (line for line in lines() if line.startswith("mpremote"))
    with start_emulator(load_board(name), stock_image(name, choose(version)), keep_flash=False) as emulator:

        def typed(arch: str) -> subprocess.CompletedProcess[str]:
            words = line.replace("PORT", emulator.port).replace("URL", url).replace("armv6m", arch).split()
            words[words.index("install") + 1 : 0] = ["--target", "/lib"]  # QEMU's boards have no such folder
            return subprocess.run(
                [sys.executable, "-m", *words], capture_output=True, text=True, timeout=900, check=False
            )

        unknown = typed("z80")
        assert unknown.returncode and f"Package not found: {url}/package/6/mica/z80.json" in unknown.stderr
        done = typed(ARCH[name])
        assert done.returncode == 0, done.stdout + done.stderr
        with SerialBoard(emulator.port, name=name) as board:
            board.put((made / "digits.mica").read_bytes(), "digits")
            assert board.exec(FIRST_LINE) == b"digits None\n"
            board.put((made / "x64" / "_mica.mpy").read_bytes()[:64], "other")  # its head; a Pico has no room for two
            board.exec("with open('/lib/_mica.mpy', 'wb') as f: f.write(other)")
            board.soft_reset()
            said = board.exec(
                "import sys\nsys.path.append('/lib')\ntry:\n import mica\nexcept ImportError as e: print(e)"
            )
        assert b"_mica.mpy does not fit (incompatible .mpy " in said and f"mica@{ARCH[name]}".encode() in said


@pytest.mark.parametrize("version", [DEFAULT, *[NEWEST] * ALL])
def test_a_board_with_a_network_chooses(version: str, made: Path, url: str) -> None:
    """The page's lines for mip.install, on MicroPython's unix port.
    MIP is a client of an index, since the sources that are fetched have none."""
    typed = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)[0]
    with UnixBoard(load_board("UNIX"), stock_image("UNIX", choose(version))) as board:
        board.exec(MIP)
        board.exec(typed.replace('"URL"', f'"{url}", target="lib"'), total=120)
        board.put((made / "digits.mica").read_bytes(), "digits")
        assert board.exec(FIRST_LINE.replace("/lib", "lib")) == b"digits None\n"


def test_push_installs_the_module(installed: Path, url: str) -> None:
    """On a virtual Pico with stock MicroPython: push says what it would do, and does it with the page's line."""
    (line,) = (line for line in lines() if "push" in line)
    if not (installed.parent / "elsewhere" / "net.mica").exists():
        mica(installed, *next(line for line in lines() if "pack" in line).split()[1:])
    with VirtualPico(load_board("RPI_PICO"), stock_image("RPI_PICO"), keep_flash=False) as pico:
        words = line.replace("PORT", pico.port).replace("URL", url).split()[1:]
        refused = mica(installed, *(word for word in words if word != "--yes"), code=1)
        assert refused.splitlines()[-1].endswith("; or install the native module for armv6m: mica push --yes")
        absent = mica(installed, *words[:-1], f"{url}/nowhere", code=1)
        assert absent.splitlines()[-1] == f"mica: error: {url}/nowhere/armv6m.json: the server answers 404"
        assert "net.mica: on " in mica(installed, *words)
        assert "net.mica" in mica(installed, "ls", "--on", pico.port)
        with SerialBoard(pico.port, name="RPI_PICO") as board:
            assert board.exec("import mica\nprint(mica.Model('net.mica').selftest())") == b"None\n"

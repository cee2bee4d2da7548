"""Files that a new kernel needs: one is added to a copy of the tree, and runs on the host and on a board."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from new_kernel.additions import FILES, HERE, INSERTED, REPLACED
from targets import nightly

from mica.boards import load_board
from mica.link.unix_board import UnixBoard
from mica.toolchain.build import build

ROOT = Path(__file__).resolve().parents[2]
MOST = 9
COPIED = (
    "boards",
    "firmware",
    "host_tools",
    "scripts",
    "usermod_c",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)


def _copy(tree: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.so", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tree / name)


def _once(text: str, piece: str, file: str) -> int:
    assert text.count(piece) == 1, f"{file}: {piece!r} stands there {text.count(piece)} times"
    return text.index(piece)


def _add(tree: Path) -> set[str]:
    """Writes the kernel by hand; returns the files."""
    for file, source in FILES.items():
        assert not (tree / file).exists()
        shutil.copy(ROOT / HERE / source, tree / file)
    for file in {*INSERTED, *REPLACED}:
        text = (tree / file).read_text()
        for line, more in INSERTED.get(file, ()):
            at = _once(f"\n{text}", f"\n{line}\n" if more.startswith(" ") else f"\n{line}", file)
            text = text[:at] + more + text[at:]
        if file in REPLACED:
            old, new = REPLACED[file]
            _once(text, old, file)
            text = text.replace(old, new)
        (tree / file).write_text(text)
    return {*FILES, *INSERTED, *REPLACED}


def _changed(tree: Path) -> set[str]:
    files = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    return {f for f in files if not (ROOT / f).is_file() or (ROOT / f).read_bytes() != (tree / f).read_bytes()}


def _generated() -> set[str]:
    spec = importlib.util.spec_from_file_location("gen_format", ROOT / "scripts/gen_format.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # The specification has a table of fields, which a kernel does not change, and no list of kernels.
    return {*module.FILES, *module.PARTS} - {"host_tools/mica/format/SPEC.md"}


def _run(*command: str | Path, cwd: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(cwd / "host_tools"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@nightly
def test_a_kernel_is_at_most_nine_files(tmp_path: Path) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    out.mkdir()
    _copy(tree)
    assert not _changed(tree)
    by_hand = _add(tree)
    _run("scripts/gen_format.py", cwd=tree)
    changed = _changed(tree)
    assert changed == by_hand | _generated()
    print(f"{len(by_hand)} files by hand, {len(_generated())} generated:", *sorted(by_hand), sep="\n  ")
    assert len(by_hand) <= MOST
    _run("setup.py", "-q", "build_ext", "--inplace", "-j2", cwd=tree)
    native = Path(_run(ROOT / HERE / "probe.py", out, cwd=tree).split()[-1])
    shutil.rmtree(native)  # of a tree that nobody builds again
    facts = load_board("UNIX")
    with UnixBoard(facts, build(facts).image) as board:
        for path in sorted((out / "lib").rglob("*")):
            name = str(path.relative_to(out / "lib"))
            if path.is_dir():
                board.exec(f"import os\nos.mkdir({name!r})")
            else:
                board.put(path.read_bytes(), "file")
                board.exec(f"with open({name!r}, 'wb') as f:\n    f.write(file)")
        for name in ("model.mica", "x", "y"):
            board.put((out / name).read_bytes(), name.partition(".")[0])
        # In the place of the engine and of the runtime that the firmware was built with.
        board.exec("import sys, aside._mica\nsys.modules['_mica'] = sys.modules['aside._mica']")
        board.exec("for name in list(sys.modules):\n if name.split('.')[0] == 'mica': del sys.modules[name]")
        board.exec("import mica\nfrom mica.fields import KERNELS\nassert 'hardmax_s8' in KERNELS")
        for python, where in (((), "C"), (("hardmax",), "Python")):
            board.exec(f"m = mica.Model(model, python={python!r})")
            assert board.exec("print(m.layers[1].op, m.layers[1].runs_in)").split() == [b"hardmax_s8", where.encode()]
            board.exec("m._m.write(0, mica.Quantised(x))\nm.run()")
            assert board.exec("print(bytes(m.output(0)) == bytes(y))") == b"True\n"

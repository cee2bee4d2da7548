"""Effect of a change on the files of `mica pack`: the same models, packed by another revision and by this tree.

    scripts/compare_bytes main             the digits, and the models of ../shared/models: some minutes
    scripts/compare_bytes 1d31bd5 kws ad   some of them

The other revision is checked out into a folder of its own, with its own engine, and runs in this environment's Python.
Both files then go through both engines, with the same 16 inputs. The exit code is 1 if one engine fails, or gives two
answers for one file. Bytes may differ if the commit says why; the command reports them, and how far the answers differ.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from same_bytes import NAMES, files

from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import DTYPE_NUMPY, ModelFile
from mica.run.golden import random_input

ROOT = Path(__file__).resolve().parent.parent
INPUTS = 16
# Runs in either tree, and so knows only what both have: engine.load. argv: model, inputs, where to write the outputs.
RUN = """
import sys
import numpy as np
from mica import engine
model = engine.load(open(sys.argv[1], "rb").read())
given, outputs = np.load(sys.argv[2]), {}
for k in range(int(given["n"])):
    for i in range(int(given["inputs"])):
        model.set_input(i, given[f"{k}_{i}"])
    model.run()
    for i in range(int(given["outputs"])):
        outputs[f"{k}_{i}"] = model.output(i)
    model.reset_state()
np.savez(sys.argv[3], **outputs)
"""

Answers = dict[str, np.ndarray]


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A tree of a revision, with its engine built."""
    with tempfile.TemporaryDirectory(prefix="mica-") as folder:
        tree = Path(folder) / "tree"
        try:
            _quietly(["git", "-C", ROOT, "worktree", "add", "--detach", tree, revision])
            _quietly([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=tree)
            yield tree
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], capture_output=True, check=False)


def _quietly(command: Sequence[str | Path], cwd: Path | None = None, tree: Path | None = None) -> str:
    """Output of a command; tree: whose mica it imports. Raises MicaError with its last lines."""
    env = os.environ | ({"PYTHONPATH": str(tree / "host_tools")} if tree else {})
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = "\n  ".join((done.stderr or done.stdout).splitlines()[-5:])
        raise MicaError(f"{' '.join(map(str, command))[:120]} failed:\n  {last}")
    return done.stdout


def packed(tree: Path, name: str, out: Path) -> ModelFile:
    """Packs a model by the mica of a tree."""
    model, calibration = files(name)
    words = ["pack", model, "--calib", calibration, "--golden", "4", "-o", out, "--json"]
    if _quietly([sys.executable, "-c", "import mica; print(mica.__file__)"], tree=tree).strip() != str(
        tree / "host_tools" / "mica" / "__init__.py"
    ):
        raise MicaError(f"{tree}: its mica is not what Python imports")
    _quietly([sys.executable, "-m", "mica", *words], tree=tree)
    return codec.decode(out.read_bytes())


def inputs_of(model: ModelFile, path: Path) -> None:
    """Writes integers for RUN: the golden vectors' first, then random ones."""
    rng = np.random.default_rng(0)
    arrays = {"n": np.array(INPUTS), "inputs": np.array(len(model.inputs)), "outputs": np.array(len(model.outputs))}
    for k in range(INPUTS):
        for i, t in enumerate(model.inputs):
            tensor = model.tensors[t]
            known = k < len(model.golden)
            x = model.golden[k].inputs[i] if known else random_input(model, tensor, rng)
            arrays[f"{k}_{i}"] = x.astype(DTYPE_NUMPY[tensor.dtype])
    np.savez(path, **arrays)


def answers(tree: Path, file: Path, inputs: Path, folder: Path) -> Answers:
    """Outputs of a file, by the engine of a tree."""
    out = folder / "outputs.npz"
    _quietly([sys.executable, "-c", RUN, file, inputs, out], tree=tree)
    with np.load(out) as arrays:
        return {key: arrays[key] for key in arrays.files}


def difference(a: Answers, b: Answers) -> str:
    """Text about the largest difference between two sets of integers; "" if they are equal."""
    gaps = np.concatenate([np.abs(a[key].astype(np.int64) - b[key].astype(np.int64)).reshape(-1) for key in a])
    return f"{np.count_nonzero(gaps):,} of {gaps.size:,} values, by {gaps.max()} at most" if gaps.any() else ""


def compare(trees: Sequence[Path], name: str, folder: Path) -> bool:
    """Prints how two trees pack a model; whether all is well."""
    out = [folder / f"{side}.mica" for side in ("other", "this")]
    models = [packed(tree, name, path) for tree, path in zip(trees, out, strict=True)]
    data = [path.read_bytes() for path in out]
    inputs = folder / "inputs.npz"
    inputs_of(models[1], inputs)
    well = True
    found: list[Answers] = []
    for path in out[: 1 if data[0] == data[1] else 2]:
        both = [answers(tree, path, inputs, folder) for tree in trees]
        if gap := difference(*both):
            print(f"{name:7} the engines differ on the file of the {path.stem} revision: {gap}")
            well = False
        found.append(both[1])
    if data[0] == data[1]:
        print(
            f"{name:7} {len(data[0]):9,} bytes  the same, and the same answers" if well else f"{name:7} the same bytes"
        )
        return well
    blobs = [[b.tobytes() for s in m.steps for b in s.blobs.values()] for m in models]
    where = ["metadata"] * (models[0].metadata != models[1].metadata) + ["constants"] * (blobs[0] != blobs[1])
    where += ["steps"] * ([s.kernel for s in models[0].steps] != [s.kernel for s in models[1].steps])
    gap = difference(*found)
    what = ", ".join(where) or "records"
    print(f"{name:7} {len(data[0]):9,} bytes, now {len(data[1]):,}: {what} differ; answers: {gap or 'the same'}")
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="what git calls it: main, HEAD~3, 1d31bd5")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(NAMES)}; default: those that are there")
    args = parser.parse_args()
    names = args.models or [name for name in NAMES if files(name)[0].is_file()]
    try:
        with checked_out(args.revision) as tree, tempfile.TemporaryDirectory(prefix="mica-") as folder:
            well = [compare((tree, ROOT), name, Path(folder)) for name in names]
            return 0 if all(well) else 1
    except MicaError as error:
        print(f"compare_bytes: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

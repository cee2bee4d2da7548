"""mica demo learn: a board is taught three digits, by three pictures of each, and says that it does not know others."""

from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import heads, target
from mica.compile import compile_file
from mica.demo import pictures
from mica.errors import MicaError
from mica.learn import Head, digest
from mica.link import on_board
from mica.link.targets import check_target, open_board
from mica.run import evaluation
from mica.run.host import HostRunner

DEFAULT_TARGET = "RPI_PICO@emu"
TAUGHT, SHOTS = {1: "one", 4: "four", 7: "seven"}, 3
JUDGED = (1, 4, 7, 1, 4, 7, 0, 3)  # digits, of other pictures; the last two are not taught
MAKE = "import mica\nm = mica.Model('digits.mica')\nh = mica.Learner(m, path=None)"
SHOWN = """
at the REPL of {}:

>>> m = mica.Model("digits.mica")  # packed with --embedding
>>> h = mica.Learner(m, path=None)
>>> h.teach([pixels], "one")  # and so on: three pictures of one, four and seven
>>> h.predict([pixels])
"""


def run(where: str, quiet: bool) -> dict[str, Any]:
    """Teaches a board, and this computer beside it; the keys of `mica demo learn --json`."""
    if where == "host":
        raise MicaError("the demo teaches a board", todo="give --on one, such as RPI_PICO@emu")
    check_target(where)
    folder = Path(pictures.__file__).parent
    data = evaluation.load(folder / "digits_test.npz")
    calib = np.load(folder / "digits_calib.npz")["x"]
    blob = compile_file(folder / "digits.onnx", calib, embedding="", plain=True).data
    left = {d: iter(data.x[data.y == d]) for d in range(10)}
    shots = [(next(left[d]), label) for d, label in TAUGHT.items() for _ in range(SHOTS)]
    judged = [next(left[d]) for d in JUDGED]
    answers = []
    with open_board(where, rom_files={"digits.mica": blob}, progress=target.say) as board, HostRunner(blob) as host:
        head = Head("prototype", heads.width(host.model, "digits.mica"), model=digest(blob))
        if not board.rom_files:
            board.put(blob, "_data")
            board.exec(on_board.call("write_file", "digits.mica", "wb", on_board.Expression("_data")) + "\ndel _data")
        board.exec(MAKE)
        for x, label in shots:
            board.exec(f"h.teach([{_pixels(x)}], {label!r})")
            head.teach(host.run([host.quantise([x])])[0][0], label)
        for x in judged:
            answers.append(board.exec(f"print((h.predict([{_pixels(x)}]) or [''])[0])").decode().strip() or None)
        state = bytes.fromhex(board.exec("print(h.state().hex())\ndel m, h").decode())
    if not quiet:
        captions = [f"{answer or 'unknown'} ({digit})" for answer, digit in zip(answers, JUDGED, strict=True)]
        print(SHOWN.format(where) + "\n" + pictures.gallery(judged, captions))
    right = sum(a == TAUGHT.get(d) for a, d in zip(answers, JUDGED, strict=True))
    equal = state == head.state()
    return {"target": where, "answers": answers, "right": right, "equal": equal, "state_bytes": len(state)}


def report(r: dict[str, Any]) -> str:
    """The figures at the end."""
    equal = "equals what this computer learns of the same pictures" if r["equal"] else "DIFFERS from this computer's"
    return f"\n{r['right']} of {len(r['answers'])} as expected; the head has {r['state_bytes']:,} bytes, and {equal}"


def _pixels(x: np.ndarray) -> str:
    return repr(np.round(x.reshape(-1), 4).tolist())

"""mica demo learn: a board is taught three digits, by three pictures of each, and says that it does not know others."""

from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import target
from mica.compile import compile_file
from mica.demo import pictures
from mica.errors import MicaError
from mica.learn import Head, digest
from mica.link import on_board
from mica.link.board import Link
from mica.link.targets import check_target, open_board
from mica.run import evaluation
from mica.run.host import HostRunner

DEFAULT_TARGET = "RPI_PICO@emu"
TAUGHT, SHOTS = {1: "one", 4: "four", 7: "seven"}, 3
JUDGED = (1, 4, 7, 1, 4, 7, 0, 3)  # digits, of other pictures; the last two are not taught
REPL = (
    'm = mica.Model("digits.mica")  # packed with --embedding',
    "h = mica.Learner(m, path=None)",
    'h.teach([pixels], "one")  # and so on: three pictures of one, four and seven',
    "h.predict([pixels])",
)


def run(where: str, quiet: bool) -> dict[str, Any]:
    """Teaches a board, and this computer beside it; the keys of `mica demo learn --json`."""
    if where == "host":
        raise MicaError("the demo teaches a board", todo="give --on one, such as RPI_PICO@emu")
    check_target(where)
    folder = Path(pictures.__file__).parent
    data = evaluation.load(folder / "digits_test.npz")
    calib = np.load(folder / "digits_calib.npz")["x"]
    blob = compile_file(folder / "digits.onnx", calib, embedding="", plain=True).data
    left = {d: np.flatnonzero(data.y == d).tolist() for d in range(10)}
    shots = [(data.x[left[d].pop(0)], label) for d, label in TAUGHT.items() for _ in range(SHOTS)]
    judged = [data.x[left[d].pop(0)] for d in JUDGED]
    with open_board(where, rom_files={"digits.mica": blob}, progress=target.say) as board:
        answers, state = _on_board(board, blob, shots, judged)
    if not quiet:
        print(f"\nat the REPL of {where}:\n\n" + "\n".join(f">>> {line}" for line in REPL) + "\n")
        captions = [f"{answer or 'unknown'} ({digit})" for answer, digit in zip(answers, JUDGED, strict=True)]
        print(pictures.gallery(judged, captions))
    expected = [TAUGHT.get(d) for d in JUDGED]
    right = sum(a == b for a, b in zip(answers, expected, strict=True))
    equal = state == _on_host(blob, shots)
    return {"target": where, "answers": answers, "right": right, "equal": equal, "state_bytes": len(state)}


def report(r: dict[str, Any]) -> str:
    """The figures at the end."""
    equal = "equals what this computer learns of the same pictures" if r["equal"] else "DIFFERS from this computer's"
    return f"\n{r['right']} of {len(r['answers'])} as expected; the head has {r['state_bytes']:,} bytes, and {equal}"


def _on_board(
    board: Link, blob: bytes, shots: list[tuple[np.ndarray, str]], judged: list[np.ndarray]
) -> tuple[list[str | None], bytes]:
    """The board's labels of the pictures that are judged, None for unknown ones, and the state of its head."""
    if not board.rom_files:
        board.put(blob, "_data")
        board.exec(on_board.call("write_file", "digits.mica", "wb", on_board.Expression("_data")) + "\ndel _data")
    board.exec("import mica\nm = mica.Model('digits.mica')\nh = mica.Learner(m, path=None)")
    for x, label in shots:
        board.exec(f"h.teach([{_pixels(x)}], {label!r})")
    found = [board.exec(f"print((h.predict([{_pixels(x)}]) or [''])[0])").decode().strip() for x in judged]
    state = bytes.fromhex(board.exec("print(h.state().hex())").decode().strip())
    board.exec("del m, h")
    return [label or None for label in found], state


def _on_host(blob: bytes, shots: list[tuple[np.ndarray, str]]) -> bytes:
    with HostRunner(blob) as runner:
        head = Head("prototype", int(np.prod(runner.model.tensors[runner.model.outputs[0]].dims)), model=digest(blob))
        for x, label in shots:
            head.teach(runner.run([runner.quantise([x])])[0][0], label)
    return head.state()


def _pixels(x: np.ndarray) -> str:
    return repr(np.round(x.reshape(-1), 4).tolist())

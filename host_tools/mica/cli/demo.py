"""mica demo: handwritten digits, from ONNX to answers at a board's REPL; sentences to a house (talk.py); or a board that learns."""

import argparse
import contextlib
import io
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import demo_learn, talk, target, text
from mica.cli import pack as pack_command
from mica.demo import pictures
from mica.errors import MicaError
from mica.format.values import dequantise_output
from mica.link import on_board
from mica.link.targets import check_target
from mica.run import evaluation
from mica.run.evaluation import Dataset
from mica.run.float_model import FloatModel
from mica.run.host import HostRunner
from mica.run.open import open_runner
from mica.run.runner import Runner

DEFAULT_TARGET = "MPS2_AN385"
# One picture of each digit, and one that even the float model reads wrong.
SHOWN = (0, 22, 3, 23, 1, 42, 2, 18, 17, 6, 282)

REPL_LINES = ("import mica", 'm = mica.Model("digits.mica")', "m", "m.predict([{pixels}])[0]")

JSON_KEYS = (
    "float_value, host_value, board_value, equal, size, arena_bytes, samples; of command: target, "
    "calls[] (sentence, call, understood, seconds); of learn: target, answers[], right, equal, state_bytes"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=("digits", "command", "learn"),
        default="digits",
        help="digits (default): handwritten digits; command: type sentences, and a house in the terminal obeys; "
        "learn: a board is taught three digits",
    )
    parser.add_argument(
        "--on",
        metavar="T",
        help=f"an emulated board (default {DEFAULT_TARGET}; of the others {talk.DEFAULT_TARGET}), a port such as /dev/ttyACM0, or auto",
    )
    parser.add_argument("--say", metavar="TEXT", action="append", default=[], help="of command: say this, type nothing")


def run(args: argparse.Namespace) -> int:
    if args.what == "command":
        return talk.run(args.on or talk.DEFAULT_TARGET, args.say, args.json)
    if args.say:
        raise MicaError("--say goes with `mica demo command`")
    if args.what == "learn":
        result = demo_learn.run(args.on or demo_learn.DEFAULT_TARGET, args.json)
        text.show(args, result, demo_learn.report)
        return 0 if result["equal"] else 1
    args.on = args.on or DEFAULT_TARGET
    if args.on == "host":
        raise MicaError("the demo compares a board with the host", todo="give --on a board, such as MPS2_AN385")
    check_target(args.on)
    folder = Path(pictures.__file__).parent
    say = (lambda line: None) if args.json else print
    data = evaluation.load(folder / "digits_test.npz")
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "digits.mica"
        say("$ mica pack digits.onnx --calib digits_calib.npz --data digits_test.npz\n")
        blob = _pack(folder, model, quiet=args.json)
        packed_facts = pack_facts(blob)
        say(f"\nstarting {args.on} ...")
        with text.Progress("sending digits.mica", "bytes") as progress:
            board = open_runner(blob, args.on, target.say, progress)
        with board, HostRunner(blob) as host:
            if not args.json:
                _repl(board, data)
                _show(board, data)
            result = compare(host, board, data, FloatModel(folder / "digits.onnx"))
    result = {**result, **packed_facts}
    text.show(args, result, report)
    return 0 if result["equal"] else 1


def _pack(folder: Path, model: Path, quiet: bool) -> bytes:
    """Runs the pack command on the package's own files."""
    parser = argparse.ArgumentParser()
    pack_command.add_arguments(parser)
    args = parser.parse_args(
        [
            str(folder / "digits.onnx"),
            *("-o", str(model)),
            *("--calib", str(folder / "digits_calib.npz")),
            *("--eval", str(folder / "digits_test.npz")),
            *("--labels", str(folder / "labels.txt")),
        ]
    )
    args.json = False
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        pack_command.run(args)
    if not quiet:
        print(printed.getvalue().replace(str(model), model.name), end="")
    return model.read_bytes()


def pack_facts(blob: bytes) -> dict[str, Any]:
    """Model size and arena bytes, from the file itself."""
    from mica.format.codec import decode

    return {"size": len(blob), "arena_bytes": decode(blob).arena_bytes}


def _repl(board: Runner, data: Dataset) -> None:
    """Pushes the file, then types at the board what a person would, and shows what it answers."""
    from mica.run.board import BoardRunner

    assert isinstance(board, BoardRunner)
    if board.target == "UNIX":  # its file system is this computer's
        board.board.exec(f"import os\nos.chdir({tempfile.gettempdir()!r})")
    board.board.put(board.data, "_data")
    board.board.exec(on_board.call("write_file", "digits.mica", "wb", on_board.Expression("_data")))
    board.board.exec("del _data")
    pixels = np.round(data.x[SHOWN[0]].reshape(-1), 4).tolist()
    print(f"\nat the REPL of {board.target}:\n")
    for line in REPL_LINES:
        print(f">>> {line.replace('{pixels}', '[0.0, 0.0, 0.3125, ...]')}")
        code = line.replace("{pixels}", str(pixels))
        statement = code.startswith(("import", "m ="))
        answer = board.board.exec(code if statement else f"print(repr({code}))").decode().strip()
        if answer:
            print(answer)
    board.board.exec("del m")


def _show(board: Runner, data: Dataset) -> None:
    out = board.model.tensors[board.model.outputs[0]]
    answers = board.run([board.quantise([data.x[k]]) for k in SHOWN])
    captions = []
    for k, outputs in zip(SHOWN, answers, strict=True):
        p = dequantise_output(outputs[0], out).reshape(-1)
        captions.append(pictures.caption(str(int(p.argmax())), float(p.max()), str(int(data.y[k]))))
    print(f"\nsome held-out digits, and what {board.target} says they are:\n")
    print(pictures.gallery([data.x[k] for k in SHOWN], captions))


def compare(host: Runner, board: Runner, data: Dataset, float_model: FloatModel) -> dict[str, Any]:
    """The held-out digits on float, host and board; the keys of `mica demo --json`."""
    samples = [host.quantise([x]) for x in data.x]
    begun = time.monotonic()
    outputs = {runner.target: runner.run(samples) for runner in (host, board)}
    seconds = time.monotonic() - begun
    accuracy = {
        name: float(np.mean([o[0].argmax() == y for o, y in zip(results, data.y, strict=True)]))
        for name, results in outputs.items()
    }
    shape = host.model.tensors[host.model.inputs[0]].dims
    differing = sum(int(np.sum(a[0] != b[0])) for a, b in zip(outputs["host"], outputs[board.target], strict=True))
    return {
        "target": board.target,
        "samples": len(data),
        "seconds": seconds,
        "float_value": evaluation.evaluate(data, shape, float_model.predict).value,
        "host_value": accuracy["host"],
        "board_value": accuracy[board.target],
        "equal": differing == 0,
        "differing_bytes": differing,
        "output_bytes": sum(o[0].size for o in outputs["host"]),
    }


def report(r: dict[str, Any]) -> str:
    """The figures at the end."""
    equal = (
        f"yes, all {text.count(r['output_bytes'])}"
        if r["equal"]
        else f"NO: {r['differing_bytes']} of {r['output_bytes']} differ"
    )
    rows = (
        ("held-out digits", r["samples"]),
        ("accuracy, float", text.percent(r["float_value"])),
        ("accuracy, int8 on host", text.percent(r["host_value"])),
        (f"accuracy, int8 on {r['target']}", text.percent(r["board_value"])),
        ("output bytes equal", equal),
        ("model", f"{text.count(r['size'])} bytes"),
        ("arena", f"{text.count(r['arena_bytes'])} bytes"),
    )
    width = max(len(name) for name, _ in rows)
    return "\n" + "\n".join(f"{name:{width}}  {value}" for name, value in rows)

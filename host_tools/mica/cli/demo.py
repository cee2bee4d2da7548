"""mica demo: handwritten digits, from ONNX to answers at a board's REPL; sentences to a house (talk.py);
or a board that learns."""

import argparse
import ast
import contextlib
import hashlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mica
from mica.cli import heads, talk, target, text
from mica.cli import pack as pack_command
from mica.demo import pictures
from mica.errors import MicaError
from mica.format.values import dequantise_output
from mica.learn import Head, digest
from mica.link import on_board
from mica.link.targets import check_target
from mica.run import evaluation
from mica.run.evaluation import Dataset
from mica.run.float_model import FloatModel
from mica.run.host import HostRunner, open_runner
from mica.run.runner import Runner

DEFAULT_TARGET = "MPS2_AN385"
# One picture of each digit, and one that even the float model reads wrong.
SHOWN = (0, 22, 3, 23, 1, 42, 2, 18, 17, 6, 282)

REPL_LINES = ("import mica", 'm = mica.Model("digits.mica")', "m", "m.predict([{pixels}])[0]")
# Of learn: labels by digits, examples of each, digits that are judged, of other pictures; the last two are not taught.
TAUGHT, SHOTS, JUDGED = {1: "one", 4: "four", 7: "seven"}, 3, (1, 4, 7, 1, 4, 7, 0, 3)
LEARN_LINES = (
    "import hashlib, mica",
    'm = mica.Model("digits.mica")  # packed with --embedding',
    "h = mica.Learner(m, path=None)",
)

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
        help=f"an emulated board (default {DEFAULT_TARGET}; of the others {talk.DEFAULT_TARGET}), a port such as "
        "/dev/ttyACM0, or auto",
    )
    parser.add_argument("--say", metavar="TEXT", action="append", default=[], help="of command: say this, type nothing")


def run(args: argparse.Namespace) -> int:
    if args.what == "command":
        return talk.run(args.on or talk.DEFAULT_TARGET, args.say, args.json)
    if args.say:
        raise MicaError("--say goes with `mica demo command`")
    args.on = args.on or (talk.DEFAULT_TARGET if args.what == "learn" else DEFAULT_TARGET)
    if args.on == "host":
        raise MicaError("the demo compares a board with the host", todo="give --on a board, such as MPS2_AN385")
    check_target(args.on)
    if args.what == "learn":
        result = learn(args.on, (lambda line: None) if args.json else print)
        text.show(args, result, learn_report)
        return 0 if result["equal"] else 1
    folder = Path(pictures.__file__).parent
    say = (lambda line: None) if args.json else print
    data = evaluation.load(folder / "digits_test.npz")
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "digits.mica"
        say("$ mica pack digits.onnx --calib digits_calib.npz --data digits_test.npz\n")
        blob = _pack(folder, model, quiet=args.json)
        say(f"\nstarting {args.on} ...")
        with text.Progress("sending digits.mica", "bytes") as progress:
            board = open_runner(blob, args.on, target.say, progress)
        with board, HostRunner(blob) as host:
            if not args.json:
                typed = _prompt(board, print)
                for line in REPL_LINES:
                    typed(line, data.x[SHOWN[0]])
                typed("del m", None)
                _show(board, data)
            result = compare(host, board, data, FloatModel(folder / "digits.onnx"))
            result |= {"size": len(blob), "arena_bytes": host.model.arena_bytes}
    text.show(args, result, report)
    return 0 if result["equal"] else 1


def _pack(folder: Path, model: Path, quiet: bool) -> bytes:
    """Runs the pack command on the package's own files."""
    parser = argparse.ArgumentParser()
    pack_command.add_arguments(parser)
    files = {"--calib": "digits_calib.npz", "--eval": "digits_test.npz", "--labels": "labels.txt"}
    words = [f"{option}={folder / name}" for option, name in files.items()]
    args = parser.parse_args([str(folder / "digits.onnx"), "-o", str(model), *words])
    args.json = False
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        pack_command.run(args)
    if not quiet:
        print(printed.getvalue().replace(str(model), model.name), end="")
    return model.read_bytes()


def _prompt(board: Runner, say: Callable[[str], None]) -> Callable[[str, np.ndarray | None], str]:
    """Pushes the file; what it returns types a line at the board as a person would, with a picture for {pixels},
    and gives its answer."""
    from mica.run.board import BoardRunner

    assert isinstance(board, BoardRunner)
    link = board.board
    if board.target == "UNIX":  # its file system is this computer's
        link.exec(f"import os\nos.chdir({tempfile.gettempdir()!r})")
    link.put(board.data, "_data")
    link.exec(on_board.call("write_file", "digits.mica", "wb", on_board.Expression("_data")) + "\ndel _data")
    say(f"\nat the REPL of {board.target}:\n")

    def typed(line: str, x: np.ndarray | None = None) -> str:
        say(f">>> {line.replace('{pixels}', '[0.0, 0.0, 0.3125, ...]')}")
        code = line.partition("  #")[0]
        code = code if x is None else code.replace("{pixels}", str(np.round(x.reshape(-1), 4).tolist()))
        statement = code.startswith(("import", "m =", "h =", "h.teach", "del"))
        answer = link.exec(code if statement else f"print(repr({code}))").decode().strip()
        if answer:
            say(answer)
        return answer

    return typed


def learn(where: str, say: Callable[[str], None]) -> dict[str, Any]:
    """A board, and this computer beside it, are taught three digits; the keys of `mica demo learn --json`."""
    folder = Path(pictures.__file__).parent
    data = evaluation.load(folder / "digits_test.npz")
    blob = mica.pack(folder / "digits.onnx", folder / "digits_calib.npz", embedding="", plain=True).data
    left = {d: iter(data.x[data.y == d]) for d in range(10)}
    with open_runner(blob, where, target.say) as board, HostRunner(blob) as host:
        head = Head("prototype", heads.width(host.model, "digits.mica"), model=digest(blob))
        typed = _prompt(board, say)
        for line in LEARN_LINES:
            typed(line, None)
        for digit, label in TAUGHT.items():
            for _ in range(SHOTS):
                x = next(left[digit])
                typed(f"h.teach([{{pixels}}], {label!r})", x)
                head.teach(host.run([host.quantise([x])])[0][0], label)
        said = [ast.literal_eval(typed(f"h.predict([{{pixels}}])  # a {d}", next(left[d]))) for d in JUDGED]
        equal = typed("hashlib.sha256(h.state()).digest().hex()", None) == repr(
            hashlib.sha256(head.state()).hexdigest()
        )
        typed("del m, h", None)
    answers = [found and found[0] for found in said]
    right = sum(a == TAUGHT.get(d) for a, d in zip(answers, JUDGED, strict=True))
    size = len(head.state())
    return {"target": where, "answers": answers, "right": right, "equal": equal, "state_bytes": size}


def learn_report(r: dict[str, Any]) -> str:
    """The figures at the end of `mica demo learn`."""
    equal = "equals what this computer learns of the same pictures" if r["equal"] else "DIFFERS from this computer's"
    return f"\n{r['right']} of {len(r['answers'])} as expected; the head has {r['state_bytes']:,} bytes, and {equal}"


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

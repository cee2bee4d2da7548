"""mica fleet: many boards as one.

A fleet is a target: `mica eval M.mica D.npz --on usb:all` shares the samples out over every board that is plugged in,
and `--on fleet:UNIX*3,MPS2_AN385` over these. Boards with a network meet at an MQTT broker: `mica fleet init plant`
makes the settings file plant.toml, and `--on fleet:plant` are the boards that have joined.
`mica fleet push` gives them other models, in waves, and stops where boards reject them; `mica fleet teach` adds up what
they have learnt. `mica fleet cut` makes parts of a model that no board has room for.
`mica fleet serve` answers over HTTP, or from a queue.
"""

import argparse
import importlib

from mica.cli import model_options, options, target
from mica.errors import MicaError
from mica_fleet.cli import cut as fleet_cut

JSON_KEYS = (
    "ls: fleet, broker, boards[] (board, state, machine, core, mica, heap, models, session, runs, errors, ms, times[] "
    "(path, part, ms, predicted_ms), problem); doctor: findings[] (found, ok, todo); eval: as mica eval; run: target, "
    "samples, seconds, output; init: fleet, file, broker; broker: broker, pid; join, leave: boards; push, rollback: "
    "fleet, reason, seconds, boards[] (board, state, reason); teach: fleet, size, file, labels[] (label, examples), "
    "boards[] (board, state, reason); serve: url, queue, models; bench: target, samples, seconds, rate, p50_ms, "
    "p99_ms, longest_ms, boards (requests of each), stages[] (part, board, answers, ms, predicted_ms), asked_again, "
    "lost_boards, wrong; cut: board, objective, link (rate, delay_ms, measured), parts[] (file, first, steps, ram, "
    "flash, takes, gives, ms, fits, reasons[]), rate, latency_ms, whole (fits, ram, flash, ms, rate), better"
)


def _fleet(word: str) -> str:
    """The name of a fleet. Raises MicaError for a model in its place, which argparse would take for the name."""
    if word.endswith(".mica"):
        raise MicaError(f"FLEET is missing in front of {word}", todo="such as plant, for plant.toml")
    return word


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, line: str, fleet: bool = True) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = commands.add_parser(name, help=line)
        if fleet:
            sub.add_argument("fleet", metavar="FLEET", type=_fleet, help="plant for plant.toml, or the file itself")
        sub.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        return sub

    init = action("init", "make the settings file of a fleet, with passwords")
    init.add_argument(
        "--broker",
        metavar="URL",
        default="mqtt://127.0.0.1",
        help="where the broker is or will be, as boards reach it (default mqtt://127.0.0.1, for boards on "
        "this computer)",
    )
    action("broker", "run the fleet's broker, Debian's mosquitto, until Ctrl-C")
    join = action("join", "put boards into the fleet: emulated ones run until Ctrl-C, others keep what they are given")
    join.add_argument("--on", metavar="T", required=True, help="UNIX*3, or the port of a board with Wi-Fi")
    join.add_argument(
        "--model", metavar="M.mica", action="append", default=[], help="a model for them; may be repeated"
    )
    join.add_argument("--name", metavar="NAME", help="what to call the board; of several, what their names begin with")
    join.add_argument("--wifi", metavar="SSID", help="the network of boards at ports")
    join.add_argument("--wifi-password-file", metavar="FILE", help="its password, written onto boards (default: ask)")
    join.add_argument("--wifi-password", metavar="TEXT", help="the same, where other users see it")
    leave = action("leave", "take boards out of the fleet: the broker forgets them, and lets them in no more")
    leave.add_argument("--boards", metavar="NAMES", required=True, help="as b1,b2")
    ls = action("ls", "the boards of the fleet, and what they say of themselves")
    ls.add_argument("--watch", action="store_true", help="again every 2 s, until Ctrl-C")
    for name, line in (("run", "all samples of a file through a model"), ("eval", "as mica eval, with a journal")):
        sub = action(name, line)
        sub.add_argument("model", metavar="M.mica")
        target.add_data(sub, "labelled data as for mica eval" if name == "eval" else "an .npz with the array x")
        sub.add_argument(
            "--journal",
            metavar="FILE",
            help="write answers there: when this is killed, the same command goes on from them",
        )
        if name == "eval":
            sub.add_argument("--samples", metavar="N", type=int, help="use the first N samples")
        else:
            sub.add_argument("-o", "--output", metavar="Y.npy", help="write what the model answers, as float32")
    for name, line in (
        ("push", "models onto the boards, in waves; boards try them first, and failures stop it"),
        ("rollback", "every board gets what it had before the last push"),
    ):
        sub = action(name, line)
        if name == "push":
            sub.add_argument("models", metavar="M.mica", nargs="+", help="they keep their files' names")
            sub.add_argument("--boards", metavar="NAMES", help="these alone, as b1,b2 (default: all)")
        waves = "1,10%,100%" if name == "push" else "100%"
        options.add(
            sub,
            f"""
            --waves LIST  how many boards have it at the end of each wave (default {waves.replace("%", "%%")})
            --abort P%    stop where more than this share of those that have answered failed, and go back (default
                2%%)
            --min N       within a wave, once so many have answered (default 20); at its end always
            --timeout T   how long a board may take, as 90s, 15m or 2h (default 15m); longer is a failure
            --retry N     tell a board that failed again, so often
            --rate N      tell so many boards a minute at most
            """,
            waves={"default": waves},
            abort={"default": "2%"},
            min={"type": int, "default": 20},
            timeout={"default": "15m"},
            retry={"type": int, "default": 0},
            rate={"type": float, "default": 0.0},
        )
    teach = action("teach", "add up what the boards' heads have learnt, and give every board the sum")
    teach.add_argument("model", metavar="M.mica", help="the model of the heads, whose output is an embedding")
    teach.add_argument("--learnt", metavar="PATH", default="/learnt", help="where the heads are; default /learnt")
    teach.add_argument(
        "--most", metavar="N", type=int, default=1000, help="new examples of a label that one board may have (1000)"
    )
    teach.add_argument(
        "--forget", metavar="LABEL", action="append", default=[], help="take a label from the sum; may be repeated"
    )
    teach.add_argument("--seconds", metavar="S", type=float, default=20.0, help="how long boards may take (20)")
    teach.add_argument("-o", "--output", metavar="HEAD.learnt", help="write the sum there, too")
    serve = action(
        "serve",
        "answer over HTTP: Open Inference Protocol v2, and /metrics for Prometheus; or from a NATS queue",
        fleet=False,
    )
    serve.add_argument(
        "fleet",
        metavar="FLEET",
        type=_fleet,
        help="plant for plant.toml, or boards without a broker: usb:all, fleet:UNIX*3",
    )
    serve.add_argument(
        "models",
        metavar="M.mica",
        nargs="+",
        help="each is served by its file's name without .mica; of one in parts name any part",
    )
    options.add(
        serve,
        """
        --http HOST:PORT   where to listen (default 127.0.0.1:8080, without --queue); other machines reach it where a
            token is given
        --queue URL        take requests from a JetStream work queue of a NATS server, and store answers there:
            nats://[USER:PASSWORD@]HOST:4222[/STREAM]
        --token-file FILE  its first line is what clients send: Authorization: Bearer ...
        --timeout T        until a request is given up with 504, as 500ms, 30s or 2m
        --audit P%         share of answers that are computed again here first (default 1%%)
        --ha               tell Home Assistant (2024.12 or later) of boards and answers, by its MQTT discovery at the
            fleet's broker
        """,
        timeout={"default": "30s"},
        audit={"default": "1%"},
    )
    bench = action("bench", "how many samples a second the fleet answers, and how long an answer takes", fleet=False)
    bench.add_argument(
        "fleet",
        metavar="FLEET",
        type=_fleet,
        help="plant for plant.toml, or boards without a broker: usb:all, fleet:UNIX*3",
    )
    bench.add_argument("model", metavar="M.mica")
    bench.add_argument("--seconds", metavar="S", type=float, default=10.0, help="about how long (default 10)")
    cut = action("cut", "cut a model into parts for several boards, where that costs least", fleet=False)
    cut.add_argument("model", metavar="MODEL", help="a .mica, .onnx or .tflite file")
    cut.add_argument(
        "--parts", metavar="N", required=True, help="how many; auto: as few as fit the board, where the whole does not"
    )
    cut.add_argument(
        "--board",
        metavar="B",
        help="the board that each part is for, which they have to fit; without it they fit any, and times are of "
        f"{fleet_cut.BOARD}",
    )
    fleet_cut.add_link(cut)
    cut.add_argument(
        "--fleet", metavar="FLEET", help="measure the links of the boards that are up, and take the slowest"
    )
    cut.add_argument(
        "-o", "--output", metavar="NAME", help="write NAME.1of2.mica and so on (default: beside the model)"
    )
    model_options.add_arguments(cut, board=False)
    doctor = action("doctor", "what is wrong with the fleet, and what to do")
    doctor.add_argument("--seconds", metavar="S", type=float, default=1.0, help="how long to listen (default 1)")


def run(args: argparse.Namespace) -> int:
    module = args.action if args.action in ("bench", "cut", "serve", "teach") else "boards"
    name = {"broker": "run_broker", "eval": "evaluate", "cut": "run"}.get(args.action, args.action)
    code: int = getattr(importlib.import_module(f"mica_fleet.cli.{module}"), name)(
        args
    )  # here: help need not wait for it
    return code

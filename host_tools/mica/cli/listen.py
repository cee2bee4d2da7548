"""mica listen: what a model recognises in a sound file, or at a board's microphone, as it happens."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mica.cli import listening as words
from mica.cli import options, target, text
from mica.cli.text import say
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.listen import detection, suggest
from mica.listen.detection import Event
from mica.listen.gate import Gate, Share, detect
from mica.listen.microphone import Microphone, PdmMicrophone, listen
from mica.printable import printable
from mica.run.host import HostRunner
from mica.run.runner import Runner

JSON_KEYS = (
    "target, events[] (label, score, ms), used (share of a board's time, at a microphone), ran (with --gate, of a "
    "file: share of the steps); of --suggest: suggested (threshold of each word), and "
    "the keys of mica eval for recordings"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    parser.add_argument(
        "input", metavar="SOUND.wav", nargs="?", help="a recording; without one, --i2s or --pdm names a microphone"
    )
    target.add_on(parser)
    words.add_settings(parser)
    options.add(
        parser,
        """
        --i2s sck=N,ws=N,sd=N  a microphone at the board's pins of these numbers; more words: id=0, bits=16 or 32
        --pdm clk=N,data=N  a PDM microphone at the board's pins of these numbers or names; more words: ratio=64, 128
            or 256, gain=1
        """,
    )
    words.add_gate(parser)
    parser.add_argument(
        "--suggest",
        action="store_true",
        help="propose thresholds: SOUND.wav, or a folder of recordings, has .txt files with lines of BEGIN END LABEL "
        "(mica eval -h); at most one false alarm an hour, then the most hits",
    )
    parser.add_argument("--seconds", metavar="S", type=float, help="of a microphone; default: until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    if sum(given is not None for given in (args.input, args.i2s, args.pdm)) != 1:
        raise MicaError("expected a sound file, or --i2s or --pdm with a board's microphone", todo="see mica listen -h")
    model = target.whole_model(args.model)
    chosen = words.settings(args, model)
    if args.suggest:
        return _suggest(args, model, chosen)
    gate, share = Gate.read(args.gate) if args.gate else None, Share()
    events: list[Event] = []
    used = None

    def tell(event: Event) -> None:
        events.append(event)
        if not args.json:
            print(f"{event.ms / 1000:8.2f} s  {printable(event.label):16} {event.score:.2f}", flush=True)

    if args.input is None:
        if args.on == "host":
            option = "--pdm" if args.i2s is None else "--i2s"
            raise MicaError(f"{option}: this computer has no such pins", todo="name a board with --on")
        microphone = PdmMicrophone.read(args.pdm) if args.i2s is None else Microphone.read(args.i2s)
        data = target.read_model(args.model)
        before = None if gate is None else (gate, target.read_model(gate.file))
        used = listen(data, args.on, microphone, chosen, args.seconds, tell, say, before)
    else:
        path = Path(args.input)
        samples = words.samples_of(path, model)
        words.padding([path], model, chosen)
        with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
            for event in _events(runner, gate, samples, chosen, share):
                tell(event)
    if args.json:
        text.emit_json(
            {"target": args.on, "events": [vars(e) for e in events], "used": used, "ran": share.share if gate else None}
        )
    elif not events:
        print("nothing recognised")
    if share.steps and not args.json:
        print(f"the model ran in {text.percent(share.share)} of its steps")
    if used is not None and not args.json:
        print(f"the model took {text.percent(used)} of the time")
    return 0


def _events(
    runner: Runner, gate: Gate | None, samples: np.ndarray, chosen: detection.Settings, share: Share
) -> Iterator[Event]:
    """With a gate, whose model runs on this computer."""
    if gate is None:
        yield from detection.detect(runner, samples, chosen)
        return
    with HostRunner(target.read_model(gate.file)) as small:
        yield from detect(runner, small, gate, samples, chosen, share)


def _suggest(args: argparse.Namespace, model: ModelFile, chosen: detection.Settings) -> int:
    """Thresholds of words, from recordings in which they are said."""
    if args.input is None:
        raise MicaError(
            "--suggest: expected recordings", todo="record some with mica record, and put .txt files beside them"
        )
    told = words.read(detection.recordings(args.input, True), model, chosen)
    with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
        result = words.evaluate(told, runner, chosen, suggest.LEVELS, proposing=True)
    text.show(args, result, words.proposal)
    return 0

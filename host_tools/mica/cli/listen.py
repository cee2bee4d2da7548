"""mica listen: what a model recognises in a sound file, or at a board's microphone, as it happens."""

import argparse
from pathlib import Path

from mica.cli import listening as words
from mica.cli import target, text
from mica.cli.say import say
from mica.errors import MicaError
from mica.listen import detection
from mica.listen.detection import Event
from mica.listen.microphone import Microphone, PdmMicrophone, listen
from mica.printable import printable

JSON_KEYS = "target, events[] (label, score, ms), used (share of a board's time, at a microphone)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    parser.add_argument(
        "input", metavar="SOUND.wav", nargs="?", help="a recording; without one, --i2s or --pdm names a microphone"
    )
    target.add_on(parser)
    words.add_settings(parser)
    parser.add_argument(
        "--i2s",
        metavar="sck=N,ws=N,sd=N",
        help="a microphone at the board's pins of these numbers; more words: id=0, bits=16 or 32",
    )
    parser.add_argument(
        "--pdm",
        metavar="clk=N,data=N",
        help="a PDM microphone at the board's pins of these numbers or names; more words: ratio=64, 128 or 256, gain=1",
    )
    parser.add_argument("--seconds", metavar="S", type=float, help="of a microphone; default: until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    if sum(given is not None for given in (args.input, args.i2s, args.pdm)) != 1:
        raise MicaError("expected a sound file, or --i2s or --pdm with a board's microphone", todo="see mica listen -h")
    chosen = words.settings(args)
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
        used = listen(data, args.on, microphone, chosen, args.seconds, tell, say)
    else:
        path, model = Path(args.input), target.whole_model(args.model)
        samples = words.samples_of(path, model)
        words.padding([path], model, chosen)
        with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
            for event in detection.detect(runner, samples, chosen):
                tell(event)
    if args.json:
        text.emit_json({"target": args.on, "events": [vars(e) for e in events], "used": used})
    elif not events:
        print("nothing recognised")
    if used is not None and not args.json:
        print(f"the model took {text.percent(used)} of the time")
    return 0

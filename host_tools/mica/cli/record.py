"""mica record: what a board's microphone, analogue pin, motion sensor or camera gives, into files by label."""

import argparse
from pathlib import Path

import numpy as np

from mica.cli import options, text
from mica.cli.text import say
from mica.data import sounds
from mica.errors import MicaError
from mica.format.names import file_fault
from mica.link.targets import open_board
from mica.listen import recorder

JSON_KEYS = "target, rate, files[] (file, samples, largest, warning)"
_RATES = {"i2s": 16000, "pdm": 16000, "adc": 1000, "imu": 100, "camera": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--on", metavar="T", required=True, help="the board: a port, auto, or an emulated one")
    sensor = parser.add_mutually_exclusive_group(required=True)
    options.add(
        sensor,
        """
        --i2s sck=N,ws=N,sd=N  a microphone at these pins; more words: id=0, bits=16 or 32
        --pdm clk=N,data=N  a PDM microphone at these pins; more words: ratio=64, 128 or 256, gain=1
        --adc PIN           an analogue pin, such as one with a vibration sensor
        --imu mpu6050,sda=N,scl=N  a motion sensor, or lsm6ds3; more words: id=0, addr=0x68. At
            SPI: mpu6500,sck=N,mosi=N,miso=N,cs=N
        --camera ov7670     a camera at its usual pins, or ov2640; more words: width=96,height=96,rgb565be,mirror=1,
            flip=1,exposure=LINES,data=0,xclk=11,id=1,sda=14,scl=15
        """,
    )
    parser.add_argument("--label", metavar="NAME", required=True, help="what is recorded: the folder of the files")
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where the label's folder is")
    parser.add_argument("--seconds", metavar="S", type=float, default=1.0, help="of a clip (1)")
    parser.add_argument("--count", metavar="N", type=int, default=1, help="clips or pictures, one after the other (1)")
    parser.add_argument(
        "--rate",
        metavar="HZ",
        type=int,
        help="samples a second; default 16000 of --i2s and --pdm, 1000 of --adc, 100 of --imu",
    )


def run(args: argparse.Namespace) -> int:
    kind = next(k for k in _RATES if getattr(args, k) is not None)
    sensor = getattr(recorder, kind)(getattr(args, kind))
    rate = _RATES[kind] if args.rate is None else args.rate
    if not 1 <= rate <= 96000 or args.count < 1 or not 1 <= args.seconds * rate <= 1 << 22:
        raise MicaError(
            f"{args.count} clips of {args.seconds:g} s at {rate} samples a second",
            todo="expected at least one sample, and up to 96000 a second",
        )
    if fault := file_fault(args.label):
        raise MicaError(f"--label '{args.label}': a folder's name {fault}", todo="name another")
    files = []
    with open_board(args.on, progress=say) as board:
        if not args.json:
            print(
                f"recording {args.count}" + (" pictures" if kind == "camera" else f" of {args.seconds:g} s"), flush=True
            )
        for path, x in recorder.record(board, sensor, Path(args.output) / args.label, args.count, args.seconds, rate):
            seen = x.dtype == np.uint8
            warning = None if seen else sounds.clipped(x.reshape(-1))
            if warning:
                say(f"warning: {path}: {warning}")
            largest = int(np.abs(x.astype(np.int32)).max())
            files.append({"file": str(path), "samples": len(x), "largest": largest, "warning": warning})
            if not args.json:
                what = f"{x.shape[1]} x {x.shape[0]} pixels" if seen else f"{len(x)} samples"
                print(f"{path}  {what}, up to {largest / (255 if seen else 32768):.0%} of the range", flush=True)
    if args.json:
        text.emit_json({"target": args.on, "rate": rate, "files": files})
    return 0

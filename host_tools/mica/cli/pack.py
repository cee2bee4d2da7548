"""mica pack: ONNX or TensorFlow Lite -> .mica."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mica import sounds
from mica.calibration import Pixels
from mica.cli import chart, fleet_cut, outputs, ram, target, text, weights
from mica.custom import CustomOps
from mica.errors import MicaError, Unsupported
from mica.format import pictures, signature
from mica.format.codec import ModelFile, encode
from mica.format.names import file_fault
from mica.format.schema import PICTURE_COLOURS, SCRATCH_LIMIT
from mica.format.weights import CODE_BITS, LAYOUT_BY_CODE
from mica.ir.axes import Front
from mica.passes import streaming
from mica.passes.front_end import SAMPLES
from mica.printable import printable
from mica.quantise.tune import AUTO, CHOICES
from mica.run import evaluation, labels, quality

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.compiler import Compiled

JSON_KEYS = (
    "file, size, weight_bytes, arena_bytes, scratch_min, scratch_want, arena_lower_bound, "
    "activation_bytes, peak_step, macs, strips[], fed, layers[], signed, accuracy, quality (sqnr_db, agreement, samples, "
    "worst_output, worst_layer, data, warnings[]), recipe (name, tried), parts (as mica fleet cut)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=".onnx or .tflite")
    parser.add_argument("-o", "--output", metavar="M.mica", help="default: MODEL.mica beside the model")
    parser.add_argument(
        "--calib",
        metavar="X.npz",
        help="samples of real inputs: an .npz with array 'x' or one array per input, an .npy, "
        "or a folder of .npy, .npz, PNG, JPEG or .wav files",
    )
    parser.add_argument(
        "--calib-method",
        choices=CHOICES,
        default=AUTO,
        help="how ranges are found; auto, the default: for each tensor what gives the smallest measured error",
    )
    parser.add_argument(
        "--plain", action="store_true", help="no equalisation, weight tuning and bias correction, for comparing"
    )
    parser.add_argument(
        "--picture",
        choices=PICTURE_COLOURS,
        help="the input is a picture of these colours, which the file says, so that cameras' frames and picture files fit it; with "
        "--calib a folder of pictures that is told from the input's channels",
    )
    parser.add_argument("--pixel-scale", metavar="S[,S,S]", help="of pictures: input = pixel * S + O; default 1/255")
    parser.add_argument("--pixel-offset", metavar="O[,O,O]", help="of pictures, one number or one a channel; default 0")
    parser.add_argument(
        "--frontend",
        metavar="KIND:WORDS",
        help="the model takes samples of a sensor, and makes its features itself: mfcc:mlperf-kws, logmel:KEY=VALUE,..., features:KEY=VALUE,... "
        "(GUIDE.md)",
    )
    parser.add_argument("--report-error", action="store_true", help="print each layer's error against float")
    parser.add_argument("--eval", metavar="DATA.npz", help="labelled data: prints float accuracy beside int8 accuracy")
    parser.add_argument("--shape", metavar="NAME=N", action="append", default=[], help="size of a dynamic dimension")
    parser.add_argument("--labels", metavar="FILE", help="class names, one per line, kept in the file")
    parser.add_argument("--name", help="name of the model; default: the file's")
    parser.add_argument(
        "--board",
        metavar="B",
        help="the board it is for: refuse what cannot fit it, and want no more scratch than it gives",
    )
    parser.add_argument(
        "--ram",
        metavar="N[K]",
        help="bytes for tensors and scratch together: where that is too little for layer after layer, layers run in strips, "
        "some rows of each in turn",
    )
    weights.add_arguments(parser)
    parser.add_argument(
        "--feed",
        action="store_true",
        help="the input comes row by row, from a buffer of the caller's or from a function such as a sensor's, and is no tensor "
        "of the model's; for pictures with channels last",
    )
    parser.add_argument(
        "--state",
        metavar="IN=OUT",
        action="append",
        default=[],
        help="streaming: this input and output are one tensor that lives from run to run, 0 at first; samples of --calib "
        "are then consecutive runs; pairs such as past_X and present_X are found by their names, unless it is `none`",
    )
    parser.add_argument(
        "--window",
        metavar="INPUT[:AXIS]=N",
        action="append",
        default=[],
        help="streaming: the input slides; a run is given N new rows (axis 0 is the batch; default: the first that is "
        "longer than 1), and so is each sample of --calib",
    )
    parser.add_argument(
        "--stream",
        metavar="INPUT[:AXIS]=N",
        help="as --window, and layers compute what is new: convolutions without padding along that axis keep the rows that they need. "
        "The answers are those of the whole window; samples of --calib are whole windows",
    )
    parser.add_argument(
        "--tokens",
        metavar="FILE[,begin=N][,end=N][,space][,merges]",
        help="a language model: its vocabulary, a JSON list of pieces or a tokenizer.json, goes into the file; tokens that stand "
        "before a text and end it; whether a space stands before a text; whether the pieces of a list are merged in its order (BPE)",
    )
    parser.add_argument("--golden", metavar="N", type=int, default=0, help="store N vectors for self-tests")
    parser.add_argument(
        "--key", metavar="FILE", help="sign the file with this key, so that a board can tell whose it is"
    )
    parser.add_argument("--report", metavar="F.html", help="write a page to look at: graph, memory, costs, errors")
    parser.add_argument(
        "--parts",
        metavar="N",
        help="also write M.1ofN.mica and so on: parts of the model for so many boards (auto: as few as fit --board), as mica fleet cut does",
    )
    fleet_cut.add_link(parser)
    target.add_custom(parser)
    chart.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from mica.boards import load_board
    from mica.calibration import load_calibration
    from mica.compiler import compile_model
    from mica.importer import import_model, kinds, vocabulary
    from mica.pack import ties as pack_ties
    from mica.passes import hear
    from mica.run.golden import with_golden

    model = Path(args.model)
    kinds.read_as(model)  # before what is said of other files: this one may be of the wrong kind
    output = Path(args.output) if args.output else model.with_suffix(".mica")
    if fault := file_fault(output.name):
        raise MicaError(f"'{output.name}': a model's file name {fault}", todo="name another with -o")
    key = signature.read_key(args.key) if args.key else None
    read = _files_read(args, output)
    outputs.check("-o", output, read)
    if args.chart_file:
        outputs.check("--chart-file", Path(args.chart_file), [*read, ("the packed model", output)])
    if args.report:
        outputs.check("--report", Path(args.report), [*read, ("the packed model", output)])
    if args.golden < 0:
        raise MicaError("--golden: expected a number of vectors, 0 for none")
    board = load_board(args.board) if args.board else None
    link = fleet_cut.link_of(args)
    if args.parts:
        fleet_cut.number_of(args.parts)
    elif args.link_rate is not None or args.link_delay is not None:
        raise MicaError("--link-rate and --link-delay are of parts", todo="say how many, with --parts")
    bits = weights.parse(args, board)
    custom = target.custom_of(args)
    shapes = parse_shapes(args.shape)
    data = evaluation.load(args.eval) if args.eval else None
    metadata = _metadata(args)
    calibration = None
    states = [] if args.state == ["none"] else [_tie(text) for text in args.state]
    tokens = vocabulary.read(args.tokens) if args.tokens else None
    windows = [_window(text) for text in args.window]
    step = _window(args.stream, "--stream") if args.stream else None
    if step and (states or windows):
        raise MicaError("--stream keeps its states itself", todo="leave --window and --state out")
    if args.eval and (states or windows or step):
        raise MicaError(
            "--eval measures one sample at a time", todo="pack a streaming model without it, then use mica eval"
        )
    if args.report_error and (states or windows or step):
        raise MicaError("--report-error is not there for streaming models")
    imported = import_model(model, shapes, custom, bool(args.frontend))
    if data is not None:
        evaluation.numbered(data, metadata["labels"].split("\n") if args.labels else imported.labels)
    if args.frontend and hear.found(imported) is not None:
        raise MicaError(
            f"--frontend {args.frontend}: the model has a front end of its own", todo="leave --frontend out"
        )
    try:
        heard = None if args.frontend else hear.found(hear.run(imported))
    except Unsupported as e:
        raise e.at(str(model)) from None
    if heard is not None and (windows or step):
        raise MicaError(
            f"{'--stream' if step else '--window'}: '{heard[0]}' is sound, of which the model's own front end takes all at once",
            todo="cut the network behind the features out of the model, and give its front end with --frontend",
        )
    if not args.state and (pairs := pack_ties.find(imported, imported.states)):
        states = pairs
        shown = ", ".join(f"{a}={b}" for a, b in pairs[:3]) + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")
        print(f"mica: states found by their names: {shown}; --state none takes none", file=sys.stderr)
    ties = [*states, *(streaming.window(imported, w) for w in windows)]
    operators = [(node.op, node.name) for node in imported.nodes]
    warnings: list[str] = []

    def warn(warning: str) -> None:
        warnings.append(warning)
        print(f"mica: warning: {warning}", file=sys.stderr)

    # States are not in the data: they come from the runs before.
    made = {source for source, _ in (*ties, *imported.states)}
    sizes = {name: imported.value(name).shape for name in imported.inputs if name not in made}
    front_end = None
    if step is not None and step.name not in sizes:
        raise MicaError(
            f"--stream {args.stream}: the model has no input '{step.name}'", todo=f"its inputs are {', '.join(sizes)}"
        )
    if args.frontend:
        front_end = _front_end(args.frontend, sizes, step is not None, bool(windows))
        sizes = {SAMPLES: front_end[1].input_shape}
    if args.calib:
        sound = heard or front_end
        rate = sound[1].rate if sound else 0
        calibration = load_calibration(args.calib, list(sizes), sizes, _pixels(args), rate)
        if heard:
            calibration[heard[0]] = sounds.as_reals(calibration[heard[0]], heard[1].step)
        if front_end:
            _check_sound(args.calib, calibration[SAMPLES])
    with text.Progress("calibrating", "samples") as samples, text.Progress("four bits", "layers") as fitted:
        progress = {"calibrating": samples, "four bits": fitted}
        compiled = compile_model(
            model,
            calibration,
            shapes,
            metadata,
            lambda what, done, of: progress[what](done, of),
            warn,
            args.calib_method,
            args.plain,
            board.scratch if board else SCRATCH_LIMIT,
            ties,
            imported=imported,
            custom=custom,
            tokens=tokens,
            bits=bits,
            ram=ram.given(args.ram, args.feed, board),
            front_end=front_end,
            step=step,
        )
    if (
        board is not None
        and not args.ram
        and not args.parts
        and (smaller := ram.for_board(compiled, board, args.feed)) is not None
    ):
        compiled = smaller.compiled
        print(
            f"mica: does not fit {board.name} layer by layer: layers run in strips, as with --ram {smaller.bytes}",
            file=sys.stderr,
        )
    packed, blob = compiled.model, compiled.data
    if packed.state_bytes and (args.eval or args.report_error):
        option = "--eval" if args.eval else "--report-error"
        raise MicaError(f"{model}: has a state, which lives from run to run; {option} measures one sample at a time")
    if (picture := _picture(args, packed)) is not None:
        packed.metadata[pictures.KEY] = picture
        blob = encode(packed)
    if args.labels:
        labels.check(metadata["labels"].split("\n"), packed, Path(args.labels))

    result: dict[str, Any] = {
        "file": str(output),
        "size": len(blob),
        "weight_bytes": compiled.weight_bytes,
        "arena_bytes": compiled.plan.arena_bytes,
        "scratch_want": packed.scratch_want,
        "scratch_bytes": packed.scratch_want,
        "scratch_min": packed.scratch_min,
        "scratch_least": packed.scratch_min,
        "arena_lower_bound": compiled.plan.lower_bound,
        "strips": [[s.first, s.steps, len(s.calls)] for s in packed.strips],
        "fed": None if packed.fed is None else packed.tensors[packed.inputs[packed.fed]].name,
        "activation_bytes": compiled.plan.activation_bytes,
        "peak_step": compiled.plan.peak_step,
        "macs": compiled.macs,
        "layers": layers(packed, compiled.plan.live_bytes),
    }
    found = quality.of(compiled, data)
    result["quality"] = None if found is None else {**found.facts(), "warnings": warnings}
    result["recipe"] = {"name": compiled.tuned.recipe.name, "tried": compiled.tuned.tried}
    if args.report_error or (args.report and not packed.state_bytes):
        result |= _add_errors(compiled, calibration, result["layers"])
    if args.golden:
        given = calibration if step is None or calibration is None else _newest(calibration, packed)
        packed = with_golden(packed, blob, given, args.golden, custom)
    if data is not None:
        result["accuracy"] = _measure(model, blob, custom, data, front_end[1] if front_end else None)
        packed.metadata.update(_accuracy_metadata(result["accuracy"], len(data)))
    if args.golden or data is not None:
        blob = encode(packed)
    if key is not None:
        blob = signature.sign(blob, key)
    if board is not None and not args.parts:
        _require_fit(packed, blob, board, model)
    weights.require_size(bits.size if bits else None, len(blob))
    result["size"] = len(blob)
    result["signed"] = key is not None
    cut = None
    if args.parts:
        place = args.board or fleet_cut.BOARD
        cut = fleet_cut.cut(blob, args.parts, place, link, args, str(output))
        files = fleet_cut.write(cut, output.with_suffix(""), read)
        result["parts"] = fleet_cut.facts(cut, files, place, link, "")
    outputs.write(output, blob)
    if args.report:
        outputs.write(Path(args.report), _page(packed, blob, result, operators))
    drawn = chart.draw(args, packed)
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
        if cut is not None:
            print("\n" + fleet_cut.report(result["parts"]))
        if args.report_error:
            print("\n" + error_table(result))
        print(drawn, end="")
    return 0


def _page(model: ModelFile, data: bytes, result: dict[str, Any], operators: list[tuple[str, str]]) -> bytes:
    """The page of --report. result: of --json; operators: of the source, with their names."""
    from collections import Counter

    from mica.format.names import clean
    from mica.report.facts import facts
    from mica.report.page import Report

    found = facts(model, data)
    for layer, known in zip(found["layers"], result["layers"], strict=True):
        layer["sqnr_db"] = known.get("sqnr_db")
    found |= {"quality": result["quality"], "evaluation": result.get("accuracy")}
    layers_ = {s.name for s in model.steps}
    gone = Counter(op for op, name in operators if clean(name) not in layers_)
    found["source"] = {"kept": len(operators) - gone.total(), "gone": dict(gone)}
    return Report(found, model).html().encode()


def _files_read(args: argparse.Namespace, output: Path) -> list[tuple[str, str | Path | None]]:
    """What the command reads, for `outputs.check`."""
    from mica.calibration import sample_files
    from mica.importer.onnx_file import external_files

    read: list[tuple[str, str | Path | None]] = [
        ("the model", args.model),
        ("the labels", args.labels),
        ("the vocabulary", args.tokens.split(",")[0] if args.tokens else None),
        ("the key", args.key),
        ("the data of --eval", args.eval),
        *(("a file of --custom", path) for path in args.custom),
    ]
    if args.calib:
        read += [("the calibration data", path) for path in sample_files(args.calib)]
    if output.exists():  # to look takes as long as reading the model
        read += [("a part of the model", path) for path in external_files(args.model)]
    return read


def _front_end(text_: str, sizes: Mapping[str, tuple[int, ...]], step: bool, windows: bool) -> tuple[str, Front, str]:
    """The input that becomes samples, its front end, and what was asked for. Raises MicaError.

    step: for a row at a time: pre-emphasis then needs the sample before it. windows: for some rows of an input that keeps the others.
    """
    from mica import front_ends

    kind = text_.partition(":")[0]
    if (step or windows) and (why := front_ends.OF_WINDOWS.get(kind)):
        raise MicaError(f"--frontend {text_}: {why}", todo="leave --window and --stream out")
    if windows and (why := front_ends.OF_FRAMES.get(kind)):
        raise MicaError(f"--frontend {text_}: {why}", todo="take --stream in the place of --window")
    if len(sizes) != 1:
        raise MicaError(f"--frontend: the model has the inputs {', '.join(sizes)}", todo="expected one")
    ((name, shape),) = sizes.items()
    return name, *front_ends.of_input(text_, shape, f"input '{name}'", step)


def _check_sound(where: str, x: np.ndarray) -> None:
    """Raises MicaError where an array is no sound of 16 bits."""
    size = float(np.abs(x).max(initial=0))
    if not size <= 2**15 or (0 < size <= 1):
        raise MicaError(
            f"{where}: holds samples of up to {size:.4g}", todo="expected int16 samples, from -32768 to 32767"
        )


def _tie(text_: str) -> tuple[str, str]:
    """IN=OUT. Raises MicaError."""
    source, _, result = text_.partition("=")
    if not source or not result:
        raise MicaError(f"--state {text_}: expected IN=OUT, an input and an output of the model")
    return source, result


def _newest(arrays: Mapping[str, np.ndarray], model: ModelFile) -> dict[str, np.ndarray]:
    """Of samples that are whole windows what a run is given: the last rows, where an input has fewer."""
    found = {}
    for t in (model.tensors[i] for i in model.inputs):
        x = arrays[t.name]
        for axis in range(1, min(x.ndim, len(t.dims) + 1)):
            x = np.take(x, range(x.shape[-axis] - t.dims[-axis], x.shape[-axis]), -axis)
        found[t.name] = x
    return found


def _window(text_: str, option: str = "--window") -> streaming.Window:
    """INPUT=N or INPUT:AXIS=N. Raises MicaError."""
    name, _, rows = text_.rpartition("=")
    stem, _, axis = name.rpartition(":")
    if not (stem and axis.isdecimal()):
        stem, axis = name, ""
    if not stem or not rows.isdecimal():
        raise MicaError(f"{option} {text_}: expected INPUT=N or INPUT:AXIS=N with N a positive number")
    return streaming.Window(stem, int(axis) if axis else None, int(rows))


def parse_shapes(items: list[str]) -> dict[str, int]:
    """["N=1"] -> {"N": 1}. Raises MicaError."""
    shapes = {}
    for item in items:
        name, _, size = item.rpartition("=")
        if not name or not size.isdigit() or int(size) < 1:
            raise MicaError(f"--shape {item}: expected NAME=N with N a positive number")
        shapes[name] = int(size)
    return shapes


def _metadata(args: argparse.Namespace) -> dict[str, str]:
    metadata = {"command": command(args)}
    if args.name:
        metadata["name"] = args.name
    if args.labels:
        metadata["labels"] = "\n".join(labels.read(Path(args.labels)))
    return metadata


def command(args: argparse.Namespace) -> str:
    """The command that makes these bytes, for the file: files by their names, without what only tells where or prints."""
    options: list[tuple[str, list[str]]] = [
        ("--calib", _file_names(args.calib)),
        ("--calib-method", [args.calib_method] if args.calib_method != AUTO else []),
        ("--frontend", [args.frontend] if args.frontend else []),
        ("--picture", [args.picture] if args.picture else []),
        ("--pixel-scale", [args.pixel_scale] if args.pixel_scale else []),
        ("--pixel-offset", [args.pixel_offset] if args.pixel_offset else []),
        ("--eval", _file_names(args.eval)),
        ("--shape", args.shape),
        ("--labels", _file_names(args.labels)),
        ("--name", [args.name] if args.name else []),
        ("--board", _file_names(args.board)),
        ("--ram", [args.ram] if args.ram else []),
        ("--parts", [args.parts] if args.parts else []),
        ("--weights", [args.weights] if args.weights != "8" else []),
        ("--size", [args.size] if args.size else []),
        ("--loss", [args.loss] if args.loss else []),
        ("--state", args.state),
        ("--window", args.window),
        ("--stream", [args.stream] if args.stream else []),
        (
            "--tokens",
            [",".join([Path(args.tokens.split(",")[0]).name, *args.tokens.split(",")[1:]])] if args.tokens else [],
        ),
        ("--golden", [str(args.golden)] if args.golden else []),
        ("--custom", _file_names(*args.custom)),
    ]
    words = ["mica", "pack", *_file_names(args.model), *(["--plain"] if args.plain else [])]
    words += ["--feed"] if args.feed else []
    words += [word for option, values in options for value in values for word in (option, value)]
    return printable(shlex.join(words))


def _file_names(*paths: str | None) -> list[str]:
    return [Path(path).name for path in paths if path]


def _pixels(args: argparse.Namespace) -> Pixels:
    given = {"scale": args.pixel_scale, "offset": args.pixel_offset}
    found = {}
    for name, text_ in given.items():
        if text_ is not None:
            try:
                found[name] = tuple(_number(part) for part in text_.split(","))
            except (ValueError, ZeroDivisionError):
                raise MicaError(f"--pixel-{name} {text_}: expected numbers such as 0.5, 1/255 or 0.1,0.2,0.3") from None
    return Pixels(**found, colours=args.picture or "")


def _picture(args: argparse.Namespace, model: ModelFile) -> str | None:
    """What the file says of the picture that its input is; None where it is none. Raises MicaError."""
    from mica.calibration import holds_pictures

    if not args.picture and not (args.calib and holds_pictures(args.calib)):
        return None
    pixels = _pixels(args)
    inputs = [model.tensors[t] for t in model.inputs]
    if len(inputs) != 1:
        raise MicaError(f"--picture: the model has the inputs {', '.join(t.name for t in inputs)}", todo="expected one")
    found = pictures.layout(inputs[0].dims, pixels.colours)
    if not args.picture and (found is None or found[0] == "rgba" or inputs[0].dtype != "int8"):
        return None
    return pictures.write(pixels.colours or found[0], pixels.scale, pixels.offset, inputs[0])  # type: ignore[index]


def _number(text_: str) -> float:
    """ "1/255" or "0.5"."""
    a, slash, b = text_.partition("/")
    return float(a) / float(b) if slash else float(a)


def _add_errors(
    compiled: Compiled, calibration: Mapping[str, np.ndarray] | None, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Puts sqnr_db and own_db into the layers; returns sqnr_db of the output."""
    from mica.calibration import default_samples, samples_for
    from mica.run import layer_errors

    core = compiled.core
    samples = default_samples(core) if calibration is None else samples_for(core, calibration)
    for row, e in zip(rows, layer_errors.measure(compiled, samples), strict=True):
        row.update(sqnr_db=e.sqnr_db, own_db=e.own_db)
    model = compiled.model
    maker = {s.outputs[0]: k for k, s in enumerate(model.steps)}
    last = maker.get(model.outputs[0])
    return {"sqnr_db": None if last is None else rows[last]["sqnr_db"]}


def _accuracy_metadata(accuracy: dict[str, Any], samples: int) -> dict[str, str]:
    return {
        "metric": accuracy["metric"],
        "accuracy_int8": f"{accuracy['value']:.4f}",
        "samples": str(samples),
    }


def _measure(
    model: Path, blob: bytes, custom: CustomOps, data: evaluation.Dataset, front_end: Front | None
) -> dict[str, Any]:
    from mica.cli.eval import compare
    from mica.run.float_model import FloatModel
    from mica.run.host import HostRunner

    with HostRunner(blob, custom) as runner:
        return compare(data, runner, FloatModel(model, front_end))


def _require_fit(model: ModelFile, data: bytes, board: BoardSpec, path: Path) -> None:
    """Raises Unsupported where `mica fit` would say of the file `data` that it does not fit, with the same reasons."""
    from mica.cost.prediction import predict
    from mica.cost.table import Table

    prediction = predict(model, data, board, Table.read())
    if not prediction.fits:
        raise Unsupported.because(f"{path} does not fit {board.name}", prediction.reasons)


def layers(model: ModelFile, live: list[int]) -> list[dict[str, Any]]:
    """One entry a step, for --json and the table."""
    return [
        {
            "name": s.name,
            "kernel": s.kernel,
            "op": s.kernel,
            "input": list(model.tensors[s.inputs[0]].dims),
            "output": list(model.tensors[s.outputs[0]].dims),
            "macs": s.macs,
            "weight_bytes": s.constant_bytes,
            "weight_bits": LAYOUT_BY_CODE[s.layout].bits if "weights" in s.blobs else None,
            "live_bytes": live[k],
            "scratch_want": s.scratch_want,
            "scratch_bytes": s.scratch_want,
        }
        for k, s in enumerate(model.steps)
    ]


def report(r: dict[str, Any]) -> str:
    """The table of `mica pack`."""
    rows = [
        (
            layer["name"],
            layer["kernel"],
            text.shape(layer["output"]),
            text.count(layer["macs"]),
            text.count(layer["weight_bytes"]),
            text.count(layer["scratch_want"]),
            text.count(layer["live_bytes"]) + (" <- peak" if layer["name"] == r["peak_step"] else ""),
        )
        for layer in r["layers"]
    ]
    lines = [
        text.table(("layer", "kernel", "output", "MACs", "weights", "scratch", "arena in use"), rows, "lllrrrl"),
        "",
    ]
    saved = r["activation_bytes"] / max(1, r["arena_bytes"])
    less = f", {saved:.2f}x less than without a plan" if saved > 1 else ""
    lines += [
        f"model       {r['file']}: {text.count(r['size'])} bytes, of which constants {text.count(r['weight_bytes'])}",
        f"MACs        {text.count(r['macs'])}",
        f"arena       {text.count(r['arena_bytes'])} bytes for tensors "
        f"({'layer by layer' if r['strips'] else 'lower bound'} {text.count(r['arena_lower_bound'])}{less})",
        f"scratch     {text.count(r['scratch_want'])} bytes for speed, {text.count(r['scratch_min'])} at least",
    ]
    if r["strips"]:
        each = ", ".join(f"{n} layers from '{r['layers'][first]['name']}' on" for first, n, _ in r["strips"])
        calls = sum(n for _, _, n in r["strips"])
        lines.append(f"strips      {len(r['strips'])}, of {text.count(calls)} calls: {each}")
    few = [layer for layer in r["layers"] if layer["weight_bits"] == CODE_BITS]
    if few:
        of = sum(layer["weight_bits"] is not None for layer in r["layers"])
        lines.append(f"weights     four bits in {len(few)} of {of} layers that have some: {_names(few)}")
    if r["fed"] is not None:
        lines.append(f"fed         '{r['fed']}': its rows come from the caller while the model runs")
    if r["recipe"]["tried"]:
        lines.append(f"recipe      {r['recipe']['name']}: {r['recipe']['tried']}")
    if r["quality"] is not None:
        lines.append("quality     " + quality_line(r["quality"]))
    if "accuracy" in r:
        a = r["accuracy"]
        real, whole = (text.metric(a["metric"], a[k]) for k in ("float_value", "value"))
        lines.append(f"accuracy    float {real}, int8 {whole} ({a['metric']}, {a['samples']} samples)")
    return "\n".join(lines)


_DATA = {
    "held out": "{n} samples that calibration did not see",
    "unseen": "{n} samples of --calib, which the model had no use for",
    "calibration": "the calibration sample itself",
    "eval": "{n} samples of --eval",
    "made up": "{n} made-up samples, which says little",
}


def _names(rows: list[dict[str, Any]]) -> str:
    return ", ".join(row["name"] for row in rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")


def quality_line(q: dict[str, Any]) -> str:
    """SQNR, agreement, on what, the worst output and layer."""
    parts = [] if q["sqnr_db"] is None else [f"SQNR {q['sqnr_db']:.1f} dB"]
    if q["agreement"] is not None:
        parts.append(f"same answer as float on {text.percent(q['agreement'])}")
    line = ", ".join(parts or ["unknown"]) + f" ({_DATA[q['data']].format(n=q['samples'])})"
    worst = [(role, q[f"worst_{role}"]) for role in ("output", "layer") if q[f"worst_{role}"] is not None]
    return "; ".join([line, *(f"worst {role} {w['name']} {w['sqnr_db']:.1f} dB" for role, w in worst)])


def error_table(r: dict[str, Any]) -> str:
    """Layers by their error, the worst first."""

    def key(layer: dict[str, Any]) -> float:
        return np.inf if layer["sqnr_db"] is None else float(layer["sqnr_db"])

    alone = [layer["own_db"] for layer in r["layers"] if layer["own_db"] is not None]
    rows = [
        (
            layer["name"],
            layer["kernel"],
            _db(layer["sqnr_db"]),
            _db(layer["own_db"]) + (" <- adds most" if alone and layer["own_db"] == min(alone) else ""),
        )
        for layer in sorted(r["layers"], key=key)
    ]
    return text.table(("layer, worst first", "kernel", "SQNR dB", "alone dB"), rows, "llrl")


def _db(x: float | None) -> str:
    return "-" if x is None else f"{x:.1f}"

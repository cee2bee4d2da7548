"""mica info: what a .mica file holds; of an .onnx or .tflite file, which tensors may be its embedding;
with --ops, what mica can import."""

import argparse
from pathlib import Path
from typing import Any

from mica.boards import BoardSpec, load_board
from mica.cli import chart, fit, options, outputs, target, text
from mica.cost.prediction import Prediction, predict
from mica.cost.table import Table
from mica.errors import MicaError, found_at
from mica.file import codec
from mica.format import signature
from mica.format.schema import STEP_FLAGS
from mica.ir.ops import DEFINED_BY_ONNX, MICROSOFT_OPS
from mica.printable import attributes, printable_lines

JSON_KEYS = (
    "file, size, version, arena_bytes, inputs[], outputs[], layers[], metadata, signed, time, onnx; ops[]; "
    "embeddings[] (name, size, default, accuracy), ways, shots"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", help=".mica, or .onnx or .tflite")
    parser.add_argument(
        "--data",
        dest="eval",
        metavar="DATA.npz",
        help="of .onnx and .tflite: labelled data, for the figure beside each tensor",
    )
    parser.add_argument("--eval", help=argparse.SUPPRESS)  # the same
    options.add(
        parser,
        """
        --frontend KIND:WORDS  of .onnx and .tflite: as for pack, where the data is samples
        --ops            list the operators that pack supports
        --onnx OUT.onnx  write it as an ONNX model with QuantizeLinear and costs, for Netron and ONNX Runtime
        --exact          of --onnx: sums in integers throughout, where even sums of millions are the board's; scales
            are 1
        --board B        whose costs are told; default RPI_PICO
        """,
        board={"default": "RPI_PICO"},
    )
    chart.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.ops:
        from mica.importer.expand import ml, transformers
        from mica.importer.tflite import schema, signal
        from mica.importer.tflite.operators import OPERATORS
        from mica.passes.supported import ONNX_OPS

        ops = sorted((ONNX_OPS | DEFINED_BY_ONNX) - ml.FORMS.keys())
        ops += sorted(f"{ml.DOMAIN}.{op}" for op in ml.FORMS)
        ops += sorted(f"{transformers.DOMAIN}.{op}" for op in (*MICROSOFT_OPS, *transformers.FORMS))
        tflite = sorted([*OPERATORS, *signal.KINDS, schema.COMPOSITE_KIND])
        text.show(args, {"ops": ops, "tflite_ops": tflite}, "\n".join([*ops, "", "of TensorFlow Lite:", *tflite]))
        return 0
    if not args.model:
        raise MicaError("info: give a .mica file, or --ops")
    if args.exact and not args.onnx:
        raise MicaError("--exact: there is no --onnx", todo="name the file to write with --onnx OUT.onnx")
    if Path(args.model).suffix != ".mica" and not target.is_packed(args.model):
        return _embeddings(args)
    if args.eval or args.frontend:
        raise MicaError(
            "--data and --frontend are for .onnx and .tflite files", todo="mica eval takes a packed model and data"
        )
    if args.onnx:
        outputs.check("--onnx", Path(args.onnx), [("the model", args.model)])
    if args.chart_file:
        outputs.check("--chart-file", Path(args.chart_file), [("the model", args.model)])
    data = target.read_model(args.model)
    with found_at(args.model):
        model = codec.decode(data)
    board = load_board(args.board)
    told = predict(model, data, board, Table.read())
    result = {**facts(args.model, model, len(data)), "signed": signature.is_signed(data), "time": told.time}
    if args.onnx:
        outputs.write(Path(args.onnx), as_onnx(model, data, board, told, args.exact))
        result["onnx"] = args.onnx
    drawn = chart.draw(args, model)
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
        for line in fit.time_lines(told, board)[:1]:
            print(f"{board.name}: {line.removeprefix('time').strip()}")
        print(drawn, end="")
    return 0


def _embeddings(args: argparse.Namespace) -> int:
    """The tensors of a model that is not packed, for `pack --embedding`."""
    from mica.compile import few_shot
    from mica.importer import kinds

    kinds.read_as(Path(args.model))
    found, draw = few_shot.figures(Path(args.model), args.frontend, args.eval)
    if not found:
        raise MicaError(
            f"{args.model}: has no layer behind which an embedding could be",
            todo="name a tensor: pack --embedding TENSOR",
        )
    text.show(args, {"file": args.model, "embeddings": [vars(c) for c in found], **draw}, embeddings_report)
    return 0


def embeddings_report(r: dict[str, Any]) -> str:
    """A row for each tensor, and what its figure means."""
    rows = [
        (
            c["name"],
            text.count(c["size"]),
            "" if c["accuracy"] is None else text.percent(c["accuracy"]),
            "<- default" if c["default"] else "",
        )
        for c in r["embeddings"]
    ]
    last = "--data with labels shows how well each separates its classes"
    if "ways" in r:
        last = (
            f"few-shot: {r['ways']} classes of the data are drawn, {r['shots']} examples of each are learnt, "
            f"and others told by the nearest mean;\nchance is {text.percent(1 / r['ways'])}. For new classes, give "
            "data of classes that the network was not trained on."
        )
    head = ("tensor for --embedding", "numbers", "few-shot" if "ways" in r else "", "")
    return printable_lines(f"{text.table(head, rows, 'lrrl')}\n\n{last}")


def as_onnx(model: codec.ModelFile, data: bytes, board: BoardSpec, prediction: Prediction, exact: bool) -> bytes:
    """The model as ONNX, each step's node with its costs on a board; exact: see mica.exporter. Raises MicaError."""
    from mica.exporter import export

    unit = prediction.time["unit"] if prediction.time else ""
    notes = []
    for step, layer in zip(model.steps, prediction.layers, strict=True):
        note = {"weight_bytes": str(step.constant_bytes)}
        if layer["cost"] is not None:
            note |= {unit: str(layer["cost"]), "board": board.name}
        notes.append(note)
    whole = {
        "arena_bytes": str(model.arena_bytes),
        "file_bytes": str(len(data)),
        "macs": str(sum(s.macs for s in model.steps)),
    }
    if prediction.time:
        whole |= {unit: str(prediction.time["total"]), "board": board.name}
    return export(model, notes, whole, exact).SerializeToString()


def facts(path: str, model: codec.ModelFile, size: int) -> dict[str, Any]:
    """The keys of `mica info --json`."""

    def tensor(i: int) -> dict[str, Any]:
        t = model.tensors[i]
        return {"name": t.name, "shape": list(t.dims), **attributes(t, "dtype scale zero_point space offset")}

    return {
        "file": path,
        "size": size,
        "version": ".".join(str(v) for v in model.version),
        **attributes(model, "arena_bytes scratch_want state_bytes"),
        "macs": sum(s.macs for s in model.steps),
        "kernels": model.kernels,
        "inputs": [tensor(i) for i in model.inputs],
        "outputs": [tensor(i) for i in model.outputs],
        "layers": [
            {
                **attributes(s, "name kernel"),
                "inputs": [tensor(i) for i in s.inputs],
                "outputs": [tensor(i) for i in s.outputs],
                "params": s.params,
                "weight_bytes": s.constant_bytes,
                "macs": s.macs,
                "fast": bool(s.flags & STEP_FLAGS["FAST"]),
            }
            for s in model.steps
        ],
        "golden": len(model.golden),
        "metadata": model.metadata,
    }


def report(r: dict[str, Any]) -> str:
    """The lines for a terminal: header, inputs and outputs, layers, metadata."""
    lines = [
        f"{r['file']}: format {r['version']}, {text.count(r['size'])} bytes, {len(r['layers'])} layers, "
        f"{text.count(r['macs'])} MACs",
        f"arena {text.count(r['arena_bytes'])} bytes, scratch {text.count(r['scratch_want'])}, "
        f"state {text.count(r['state_bytes'])}; golden vectors: {r['golden']}",
        f"kernels: {', '.join(r['kernels'])}",
    ]
    if r.get("signed"):
        lines.append("signed: HMAC-SHA256; mica.Model(path, key=...) checks it")
    for role in ("inputs", "outputs"):
        for t in r[role]:
            lines.append(
                f"{role[:-1]} '{t['name']}' {text.shape(t['shape'])} {t['dtype']}, "
                f"real = {t['scale']:.8g} * (q - {t['zero_point']})"
            )
    rows = [
        (
            k,
            layer["name"],
            layer["kernel"],
            " + ".join(f"{text.shape(t['shape'])}@{t['offset']}" for t in layer["inputs"]),
            " + ".join(f"{text.shape(t['shape'])}@{t['offset']}" for t in layer["outputs"]),
            text.count(layer["macs"]),
            text.count(layer["weight_bytes"]),
        )
        for k, layer in enumerate(r["layers"])
    ]
    head = ("", "layer", "kernel", "input@offset", "output@offset", "MACs", "bytes")
    lines += ["", text.table(head, rows, "rllllrr")]
    if r["metadata"]:
        lines += ["", *(f"{k}: {v.replace(chr(10), ', ')}" for k, v in sorted(r["metadata"].items()))]
    return printable_lines("\n".join(lines))

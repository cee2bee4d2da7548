"""mica eval: the metric of a model over labelled data, on any target."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import heads, listening, target, text
from mica.cli.text import say
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.file.pictures import KEY
from mica.ir.front_end import IN_GRAPH
from mica.listen import suggest
from mica.listen.detection import recordings
from mica.listen.gate import Gate
from mica.run import accuracy, evaluation, likelihood, pictures, sound
from mica.run.accuracy import Confusion
from mica.run.float_model import FloatModel
from mica.sound import front_ends

MATRIX = 20  # classes whose confusion matrix fits a screen
WORST = 10  # of more classes, those that are printed

JSON_KEYS = (
    "target, metric, value, float_value, agreement, samples, inferences, confusion (a row for each class, a column for "
    "each answer), classes[] (class, samples, recall, precision); of texts: perplexity; of recordings with time "
    "stamps: words, hits, missed, false_alarms, false_alarms_an_hour, delay_ms (negative: before the end of a word), "
    "seconds, recordings, background (of them), labels[] (label, threshold, words, hits, missed, false_alarms), "
    "thresholds[] (threshold of all words; hits, missed, false_alarms, false_alarms_an_hour, delay_ms, labels[]), "
    "gates[] (gate, hits, missed, false_alarms, ran); of --head: kind, taught (samples), value (right of them), "
    "accepted (of them), taken (of others), auc, labels[], confusion[] (label, answers)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    target.add_data(
        parser,
        "an .npz with the arrays x and y, or tokens and lengths of texts (docs/packing.md has the others). Or a table "
        "(.csv, .tsv) with a column label. Or a folder with a folder of sound files or pictures for each label. Or "
        "long recordings: sound files, each with a .txt beside it that has lines of BEGIN END LABEL in seconds. One "
        "without .txt is background, in which every event is a false alarm",
    )
    target.add_on(parser)
    parser.add_argument("--float", metavar="MODEL.onnx", dest="float_model", help="compare with the float model")
    parser.add_argument(
        "--head", metavar="H.learnt", help="a head that mica teach, or a board, has taught on this model's embeddings"
    )
    parser.add_argument("--samples", metavar="N", type=int, help="use the first N samples, texts or recordings")
    group = parser.add_argument_group("recordings with time stamps")
    listening.add_settings(group)
    listening.add_gate(group)
    group.add_argument(
        "--events",
        action="store_true",
        help="all sound files of the folder are such recordings; show hits, false alarms and delays over thresholds",
    )


def run(args: argparse.Namespace) -> int:
    custom = target.custom_of(args)
    if args.head:
        return _head(args)
    if long := recordings(args.data, args.events):
        return _recordings(args, long[: args.samples])
    is_folder = Path(args.data).is_dir()
    texts = None if is_folder else likelihood.load(args.data)
    if texts is not None:
        return _texts(args, texts.first(args.samples))
    data = None if is_folder else evaluation.load(args.data, target.table_inputs(args.model, args.data))
    if is_folder and any(Path(args.data).glob("*/*.np[yz]")):
        todo = "expected folders of sound files or pictures; examples of a head are for --head H.learnt"
        raise MicaError(f"{args.data}: holds .npz files", todo=todo)
    if is_folder and KEY not in (whole := target.whole_model(args.model)).metadata:
        data = sound.read_folder(args.data, whole, say)

    def check(model: ModelFile) -> object:
        return data and next(data.inputs(model.tensors[model.inputs[0]].dims, model.tensors[model.inputs[0]].name))

    with target.open_model(args.model, args.on, custom=custom, check=check) as runner:
        float_model = float_model_of(args.float_model, runner.model) if args.float_model else None
        seen = None
        if data is None:
            seen = pictures.input_of(runner.model, args.data)
            data = pictures.read_folder(args.data, runner.model)
        with text.watch() as watch:
            result = accuracy.compare(data.first(args.samples), runner, float_model, watch.progress, watch.warn, seen)
    text.show(args, result, report)
    return 0


def _head(args: argparse.Namespace) -> int:
    """The labels of a head."""
    if args.float_model:
        raise MicaError("--float compares answers of models; a head has none in float", todo="leave it out")
    head = heads.read(args.head, target.read_model(args.model))
    with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
        result = heads.evaluate(head, args.data, runner, args.samples)
    text.show(args, result, heads.report)
    return 0


def _recordings(args: argparse.Namespace, paths: list[Path]) -> int:
    """A model that listens, on recordings with time stamps."""
    if args.float_model:
        raise MicaError(
            "--float compares answers, not events", todo="cut the recordings, into folders named after labels"
        )
    model = target.whole_model(args.model)
    chosen = listening.settings(args, model)
    told = listening.read(paths, model, chosen)  # before a target is opened
    with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
        levels = suggest.LEVELS if args.events else listening.SWEEP
        result = listening.evaluate(told, runner, chosen, levels, gate=Gate.read(args.gate) if args.gate else None)
    text.show(args, result, listening.curve if args.events else listening.report)
    return 0


def _texts(args: argparse.Namespace, texts: likelihood.Texts) -> int:
    """A language model over texts."""
    if args.float_model:
        raise MicaError(
            "--float measures one sample at a time", todo="a text is many runs, each with the state of those before"
        )
    with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
        with text.Progress(f"evaluating on {runner.target}", "tokens") as progress:
            found = likelihood.nats(runner, texts, progress)
        value = float(np.mean(found))
        result = {
            "target": runner.target,
            "metric": "nll",
            "value": value,
            "perplexity": float(np.exp(value)),
            "samples": len(texts.texts),
            "inferences": len(found),
        }
    line = f"nll {value:.4f} nats a token, perplexity {result['perplexity']:.3f}, on {args.on}"
    text.show(args, result, f"{line} ({len(texts.texts)} texts, {text.count(len(found))} tokens)")
    return 0


def float_model_of(path: str, model: ModelFile) -> FloatModel:
    """With the front end that the model has, as real numbers. Raises MicaError."""
    plain = FloatModel(path)
    if model.metadata.get("frontend", IN_GRAPH) == IN_GRAPH:
        return plain
    front_end, _ = front_ends.find_front(model.metadata["frontend"], tuple(plain.shape), f"the input of {path}")
    return FloatModel(path, front_end)


def report(r: dict[str, Any]) -> str:
    """The scores as lines for a terminal."""
    lines = [f"{r['metric']} {text.metric(r['metric'], r['value'])} on {r['target']} ({r['samples']} samples)"]
    if r["float_value"] is not None:
        lines.append(f"{r['metric']} {text.metric(r['metric'], r['float_value'])} float")
    if r["agreement"] is not None:
        lines.append(f"same answer as float on {text.percent(r['agreement'])} of the samples")
    if r["classes"] is not None and r["confusion"] is not None:
        lines += ["", *_classes(r)]
    return "\n".join(lines)


def _classes(r: dict[str, Any]) -> list[str]:
    """Each class's figures, beside its row of the confusion matrix where that fits a screen; else the worst classes."""
    figures, counts = r["classes"], r["confusion"]
    matrix = len(counts) <= MATRIX
    order = list(range(len(counts)))
    if not matrix:
        seen = [k for k in order if figures[k]["samples"]]
        order = sorted(seen, key=lambda k: figures[k]["recall"])[:WORST]
    rows = [
        (
            k,
            figures[k]["class"] if figures[k]["class"] != str(k) else "",
            figures[k]["samples"],
            *(_share(figures[k][what]) for what in ("recall", "precision")),
            *(n or "." for n in (counts[k] if matrix else ())),
        )
        for k in order
    ]
    head = ("class" if matrix else "worst classes", "", "samples", "recall", "precision")
    numbers = tuple(str(k) for k in range(len(counts))) if matrix else ()
    lines = [text.table((*head, *numbers), rows, "rlrrr" + "r" * len(numbers))]
    if matrix:
        return [*lines, "columns 0 to " + f"{len(counts) - 1}: how often a class was answered with that one"]
    name = [f["class"] for f in figures]
    wrong = [f"{name[i]} as {name[j]} ({n})" for i, j, n in Confusion(np.array(counts)).mistakes(WORST)]
    return [*lines, "most often taken for another: " + (", ".join(wrong) or "none")]


def _share(x: float | None) -> str:
    return "-" if x is None else text.percent(x)

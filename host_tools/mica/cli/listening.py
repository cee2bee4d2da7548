"""Arguments and the report of words, for `mica listen` and for `mica eval` of recordings."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import options, target, text
from mica.cli.text import say
from mica.data import sounds
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.listen import detection, suggest
from mica.listen.gate import Gate, Share
from mica.listen.gate import detect as gated
from mica.report import event_curve
from mica.run import sound
from mica.run.host import HostRunner
from mica.run.runner import Runner

SWEEP = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # thresholds that a report compares
GATES = (0.1, 0.3, 0.5, 0.7, 0.9)  # thresholds of a gate that a report compares
MOST_WORDS = 6  # that have a column there
_COLUMNS = ("label", "threshold", "words", "hits", "missed", "false_alarms")


def add_settings(parser: argparse._ActionsContainer) -> None:
    options.add(
        parser,
        """
        --threshold P,WORD=P  the mean output from which on a word counts (0.7, unless the model says another); of
            some words another: yes=0.8,no=0.6
        --mean N              of how many outputs (3, unless the model says another)
        --dead-ms MS          from one event to the next (1000)
        --step N              samples from run to run; default: the new ones of a model that streams, else a quarter
            of what it takes
        --words A,B           labels that count; default: all but silence, unknown, other, noise
        """,
        threshold={"default": ""},
        mean={"type": int},
        dead_ms={"type": int, "default": 1000},
        step={"type": int, "default": 0},
        words={"default": ""},
    )


def add_gate(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--gate",
        metavar="VAD.mica[,threshold=P,lead=MS,hold=MS]",
        help="a small model: M.mica runs only from LEAD ms before its answer reaches P (0.5) to HOLD ms after "
        "it (500, 1000)",
    )


def settings(args: argparse.Namespace, model: ModelFile) -> detection.Settings:
    """Return those of the options, else of the model. Raises MicaError."""
    words = tuple(w for w in args.words.split(",") if w)
    usual, own = detection.settings_of(model), {}
    for part in args.threshold.split(",") if args.threshold else ():
        word, _, number = part.rpartition("=")
        try:
            own[word] = float(number)
        except ValueError:
            raise MicaError(
                f"--threshold {args.threshold}: '{part}'", todo="expected such as 0.7, or yes=0.8,no=0.6"
            ) from None
    if "" not in own:
        own = {**usual.thresholds, **own}
    return detection.Settings(
        own.pop("", usual.threshold),
        usual.mean if args.mean is None else args.mean,
        args.dead_ms,
        args.step,
        words,
        own,
        usual.means if args.mean is None else (args.mean,) * len(usual.means),
    )


def samples_of(path: Path, model: ModelFile) -> np.ndarray:
    """int16 [n] of a sound file; a warning where it is clipped. Raises MicaError."""
    samples = sounds.read(path, sound.input_of(model, str(path)).rate)
    if line := sounds.clipped(samples):
        say(f"warning: {path}: {line}")
    return samples


def padding(paths: Sequence[Path], model: ModelFile, chosen: detection.Settings) -> None:
    """Say which recordings are too short for an event. Raises MicaError."""
    given = sound.input_of(model, str(paths[0]))
    if line := sounds.padding(paths, given.rate, given.samples):
        say(line)
    elif line := sounds.padding(paths, given.rate, detection.samples_needed(model, chosen)):
        say(line.replace("the model takes", f"for an event it takes with --mean {chosen.longest}"))


@dataclass(frozen=True)
class Recording:
    """A sound file, and what is said in it: None where nothing says so, and it is background."""

    path: Path
    words: Sequence[detection.Said] | None


def read(paths: Sequence[Path], model: ModelFile, chosen: detection.Settings) -> list[Recording]:
    """All that can be wrong with recordings, before it takes long. Raises MicaError."""
    names = detection.Detector(model, chosen).names
    stamps = [path.with_suffix(detection.STAMPS) for path in paths]
    words = [detection.read_stamps(file, names) if file.is_file() else None for file in stamps]
    padding(paths, model, chosen)
    return [Recording(path, said) for path, said in zip(paths, words, strict=True)]


def evaluate(
    recordings: Sequence[Recording],
    runner: Runner,
    chosen: detection.Settings,
    tried: Sequence[float] = SWEEP,
    proposing: bool = False,
    gate: Gate | None = None,
) -> dict[str, Any]:
    """The keys of `mica eval --json` for recordings with time stamps. tried: thresholds of its list.
    gate: tried at several thresholds.

    proposing: the figures are those of a threshold for each word that follows from the list;
    the key `suggested` has them.
    """
    model = runner.model
    rate = sound.input_of(model, str(recordings[0].path)).rate
    recorded = []  # of each recording: what is said, the model's answers, its length in ms
    with text.Progress(f"listening on {runner.target}", "recordings") as progress:
        for k, recording in enumerate(recordings, 1):
            samples = samples_of(recording.path, model)
            answers = list(detection.outputs(runner, samples, chosen))
            recorded.append((recording.words or (), answers, max(1, len(samples) * 1000 // rate)))
            progress(k, len(recordings))

    def figures(settings: detection.Settings) -> dict[str, Any]:
        found = detection.Counts()
        for words, answers, ms in recorded:
            found.add(words, list(detection.events(model, answers, settings)), ms)
        return found.figures(detection.Detector(model, settings))

    levels = sorted({*tried, chosen.threshold})
    rows = [{"threshold": x, **figures(replace(chosen, threshold=x, thresholds={}))} for x in levels]
    suggested = None
    if proposing:
        words = sorted({row["label"] for at in rows for row in at["labels"] if row["words"]})
        if not words:
            raise MicaError(
                "--suggest: no words are said in these recordings", todo="put lines of BEGIN END LABEL beside one"
            )
        suggested = suggest.thresholds(rows, words, sum(ms for _, _, ms in recorded) / 3.6e6)
        chosen = replace(chosen, thresholds=suggested)
    return {
        **({"suggested": suggested} if suggested else {}),
        "target": runner.target,
        "metric": "words",
        **figures(chosen),
        "recordings": len(recordings),
        "background": sum(r.words is None for r in recordings),
        "thresholds": rows,
        "gates": _gates(recordings, runner, chosen, gate) if gate else [],
    }


def _gates(
    recordings: Sequence[Recording], runner: Runner, chosen: detection.Settings, gate: Gate
) -> list[dict[str, Any]]:
    """Return the hits and false alarms behind a gate, for thresholds of the gate."""
    rows = []
    with HostRunner(target.read_model(gate.file)) as small:
        for threshold in sorted({*GATES, gate.threshold}):
            found, share = detection.Counts(), Share()
            for recording in recordings:
                samples = samples_of(recording.path, runner.model)
                events = gated(runner, small, replace(gate, threshold=threshold), samples, chosen, share)
                ms = len(samples) * 1000 // sound.input_of(runner.model, gate.file).rate
                found.add(recording.words or (), list(events), ms)
            known = found.figures(detection.Detector(runner.model, chosen))
            counts = {key: known[key] for key in ("hits", "missed", "false_alarms")}
            rows.append({"gate": threshold, **counts, "ran": share.share})
    return rows


def report(r: dict[str, Any]) -> str:
    """The result as lines for a terminal."""
    words = (
        f"{r['hits']} of {r['words']} words recognised, {text.percent(r['value'])}"
        if r["words"]
        else "no words are said"
    )
    lines = [
        f"{words}; {r['false_alarms']} false alarms in {r['seconds']:.1f} s "
        f"({r['false_alarms_an_hour']:.1f} an hour) on {r['target']}"
    ]
    if r["background"]:
        lines.append(
            f"{r['background']} of {r['recordings']} recordings have no {detection.STAMPS} beside them: they are "
            "background, where every event is a false alarm"
        )
    if r["delay_ms"] is not None:
        when = "after" if r["delay_ms"] >= 0 else "before"
        lines.append(f"events come {abs(r['delay_ms']):.0f} ms {when} the end of a word, on average")
    rows = [tuple(row[key] for key in _COLUMNS) for row in r["labels"]]
    if rows:
        lines += ["", text.table(tuple(key.replace("_", " ") for key in _COLUMNS), rows, "lrrrrr")]
    names = [row["label"] for row in r["labels"]][:MOST_WORDS]
    lines += [
        "",
        text.table(("threshold", "hits", "missed", "false alarms", "an hour", *names), _sweep(r, names), "r" * 20),
    ]
    if names:
        lines.append("of each word: hits / said, + false alarms")
    if r["gates"]:
        rows = [
            (f"{g['gate']:g}", g["hits"], g["missed"], g["false_alarms"], text.percent(g["ran"])) for g in r["gates"]
        ]
        lines += ["", text.table(("gate", "hits", "missed", "false alarms", "runs"), rows, "r" * 5)]
        lines.append("gate: its threshold; runs: share of the steps in which the model then runs")
    return "\n".join(lines)


def curve(r: dict[str, Any]) -> str:
    """The report with bars over many thresholds in the place of the table."""
    return "\n".join([report(r).split("\n\nthreshold")[0], "", *event_curve.lines(r["thresholds"])])


def proposal(r: dict[str, Any]) -> str:
    """The result of --suggest as lines for a terminal."""
    said = ",".join(f"{word}={x:g}" for word, x in r["suggested"].items())
    lines = [f"--threshold {said}", report(r).splitlines()[0]]
    if not r["false_alarms"] and (hours := r["seconds"] / 3600):
        most = suggest.AT_95 / hours
        lines.append(f"no false alarm in {hours:.2f} h still leaves up to {most:.1f} an hour possible, at 95 %")
    return "\n".join([*lines, "these recordings chose the thresholds: try them on others with mica eval"])


def _sweep(r: dict[str, Any], names: Sequence[str]) -> list[tuple[object, ...]]:
    """Rows of one threshold for all words."""
    rows = []
    for at in r["thresholds"]:
        own = {row["label"]: f"{row['hits']}/{row['words']} +{row['false_alarms']}" for row in at["labels"]}
        said = {row["label"]: row["words"] for row in r["labels"]}
        cells = [own.get(name, f"0/{said[name]} +0") for name in names]
        hour = f"{at['false_alarms_an_hour']:.1f}"
        rows.append((f"{at['threshold']:g}", at["hits"], at["missed"], at["false_alarms"], hour, *cells))
    return rows

"""What `mica listen` and `mica eval` of recordings share: the arguments, and the report of words heard."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mica import sounds
from mica.cli import text
from mica.cli.say import say
from mica.run import hearing, sound
from mica.run.runner import Runner


def add_settings(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--threshold", metavar="P", type=float, default=0.7, help="the mean output from which on a word counts (0.7)"
    )
    parser.add_argument("--mean", metavar="N", type=int, default=3, help="of how many outputs (3)")
    parser.add_argument("--dead-ms", metavar="MS", type=int, default=1000, help="from one event to the next (1000)")
    parser.add_argument(
        "--step",
        metavar="N",
        type=int,
        default=0,
        help="samples from run to run; default: the new ones of a model that streams, else a quarter of what it takes",
    )
    parser.add_argument(
        "--words", metavar="A,B", default="", help="labels that count; default: all but silence, unknown, other, noise"
    )


def settings(args: argparse.Namespace) -> hearing.Settings:
    words = tuple(w for w in args.words.split(",") if w)
    return hearing.Settings(args.threshold, args.mean, args.dead_ms, args.step, words)


def samples_of(path: Path, runner: Runner) -> np.ndarray:
    """int16 [n] of a sound file; a warning where it is clipped. Raises MicaError."""
    samples = sounds.read(path, sound.input_of(runner.model, str(path)).rate)
    if line := sounds.clipped(samples):
        say(f"warning: {path}: {line}")
    return samples


def evaluate(paths: Sequence[Path], runner: Runner, chosen: hearing.Settings) -> dict[str, Any]:
    """The keys of `mica eval --json` for recordings with time stamps."""
    rate = sound.input_of(runner.model, str(paths[0])).rate
    names = hearing.Hearing(runner.model, chosen).names
    words = [hearing.read_stamps(p.with_suffix(hearing.STAMPS), names) for p in paths]  # all, before it takes long
    found = hearing.Heard()
    with text.Progress(f"listening on {runner.target}", "recordings") as progress:
        for k, path in enumerate(paths):
            samples = samples_of(path, runner)
            found.add(words[k], list(hearing.hear(runner, samples, chosen)), len(samples) * 1000 // rate)
            progress(k + 1, len(paths))
    said, heard, false = (sum(counts.values()) for counts in (found.words, found.heard, found.false))
    return {
        "target": runner.target,
        "metric": "words",
        "value": heard / said if said else None,
        "words": said,
        "heard": heard,
        "false_alarms": false,
        "false_alarms_an_hour": false * 3.6e6 / found.ms if found.ms else None,
        "delay_ms": sum(found.delays) / len(found.delays) if found.delays else None,
        "seconds": found.ms / 1000,
        "recordings": len(paths),
        "labels": [
            {
                "label": n,
                "words": found.words.get(n, 0),
                "heard": found.heard.get(n, 0),
                "false_alarms": found.false.get(n, 0),
            }
            for n in names
            if n in found.words or n in found.false
        ],
    }


def report(r: dict[str, Any]) -> str:
    """What people read."""
    share = "" if r["value"] is None else f", {text.percent(r['value'])}"
    lines = [
        f"{r['heard']} of {r['words']} words heard{share}, {r['false_alarms']} false alarms in {r['seconds']:.1f} s "
        f"({r['false_alarms_an_hour']:.1f} an hour) on {r['target']}"
    ]
    if r["delay_ms"] is not None:
        lines.append(f"events come {r['delay_ms']:.0f} ms after the end of a word, on average")
    if r["labels"]:
        rows = [(row["label"], row["words"], row["heard"], row["false_alarms"]) for row in r["labels"]]
        lines += ["", text.table(("label", "words", "heard", "false alarms"), rows, "lrrr")]
    return "\n".join(lines)

"""mica demo command: sentences to a board that has a language model, and a house that obeys."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mica.cli import target, text
from mica.demo import house
from mica.file.tokens import encode
from mica.link.targets import check_target
from mica.printable import printable
from mica.run.host import open_runner
from mica.run.runner import Runner
from mica.run.text import Wish, generate, tokens_of

DEFAULT_TARGET = "RPI_PICO@emu"
HEAD = ("room", "light", "blind", "door", "heat", "on")
_MOST = 20  # tokens of a call


def run(where: str, sentences: Sequence[str], as_json: bool) -> int:
    """Talks to `where`; with `sentences` instead of what is typed."""
    if where != "host":
        check_target(where)
    data = (Path(house.__file__).parent / "command.mica").read_bytes()
    calls: list[dict[str, Any]] = []
    home = house.House()
    with open_runner(data, where, target.say) as runner:
        for sentence in sentences or _typed(where, as_json):
            begun = time.perf_counter()
            call = _call(runner, sentence)
            now = time.monotonic()
            done = home.do(call, now)
            seconds = time.perf_counter() - begun
            calls.append({"sentence": sentence, "call": call, "understood": bool(done), "seconds": seconds})
            if not as_json:
                shown = call if done else "not understood"
                print(f"> {printable(sentence)}\n  {shown}\n" if sentences else f"  {shown}\n")
                if done and not done.startswith("a timer"):
                    print(text.table(HEAD, home.rows()) if not call.startswith("ask") else f"  {done} (made up)")
                for line in home.timers(now):
                    print(f"  {line}")
    if as_json:
        text.emit_json({"target": where, "calls": calls})
    return 0


def _call(runner: Runner, sentence: str) -> str:
    """The model's answer to a sentence; `none` if the sentence is empty or longer than the model's memory."""
    t = tokens_of(runner.model)
    said = " ".join(sentence.replace("%", " percent ").split())
    if not 0 < len(encode(t, said)) <= t.window - 2 - _MOST:
        return "none"
    return printable("".join(generate(runner, Wish(said + "\n", _MOST))))


def _typed(where: str, quiet: bool) -> Iterator[str]:
    """Lines from the keyboard or a pipe, until it ends."""
    asks = sys.stdin.isatty() and not quiet
    if asks:
        print(f"\nsay what {where} should do, such as `its too dark in the office`; an empty line ends it\n")
    while True:
        if asks:
            sys.stdout.write("> ")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line.strip():
            return
        yield line.strip()

"""mica demo command: sentences to a board that has a language model, and a house that obeys."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mica.cli import target, text
from mica.demo import house
from mica.errors import MicaError
from mica.link.targets import check_target
from mica.printable import printable
from mica.run.open import open_runner
from mica.run.text import Wish, generate

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
            try:
                call = printable("".join(generate(runner, Wish(sentence.strip().lower() + "\n", _MOST))))
            except MicaError as e:
                if as_json:
                    raise
                print(f"  {e}")
                continue
            now = time.monotonic()
            done = home.do(call, now)
            calls.append({"sentence": sentence, "call": call, "seconds": time.perf_counter() - begun})
            if not as_json:
                print(f"> {sentence}\n  {call}\n" if sentences else f"  {call}\n")
                if done and not done.startswith("a timer"):
                    print(text.table(HEAD, home.rows()) if not call.startswith("ask") else f"  {done} (made up)")
                for line in home.timers(now):
                    print(f"  {line}")
    if as_json:
        text.emit_json({"target": where, "calls": calls})
    return 0


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

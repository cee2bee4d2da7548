"""Writes host_tools/PICTURES.md and report.png: mica's pictures of the digits, in a terminal and in a browser.

To be run, and its results committed, when one of them changes.
The digits are packed, measured on the virtual Pico, and given to a fleet of three boards on this computer.
With --check nothing is written: what packing and `fit` say has to stand there as it is today.
"""

import argparse
import contextlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "host_tools" / "PICTURES.md"
DEMO = ROOT / "host_tools" / "mica" / "demo"
FLEET = ("mica fleet init plant", "mica fleet broker plant", "mica fleet join plant --on UNIX*3 --model digits.mica")
# Title, what it is, and the command, which is run in a folder with the demo's files.
TEXTS = (
    (
        "Packed",
        "Layers, sizes, and who lies where in the arena",
        "mica pack digits.onnx --calib digits_calib.npz -o digits.mica --chart",
    ),
    ("Predicted", "Before anything is flashed", "mica fit digits.mica --board RPI_PICO"),
    ("Measured", "A bar for each layer", "mica bench digits.mica --on RPI_PICO@emu --chart"),
    ("A fleet", "`--watch` shows it again every two seconds, with what the boards have done", "mica fleet ls plant"),
)
CHECKED = 2  # of TEXTS: what does not measure


def words(command: str) -> list[str]:
    return [sys.executable, "-m", *shlex.split(command)]


def output(command: str, folder: Path) -> str:
    """Return the text that a command prints on stdout."""
    return subprocess.run(words(command), cwd=folder, check=True, capture_output=True, text=True).stdout.strip("\n")


@contextlib.contextmanager
def fleet(folder: Path) -> Iterator[None]:
    """Broker and boards, until all boards are there."""
    output(FLEET[0], folder)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = []
    try:
        for command in FLEET[1:]:
            running.append(subprocess.Popen(words(command), cwd=folder, **quiet))  # type: ignore[call-overload]
            time.sleep(2)
        end = time.monotonic() + 60
        while "not seen" in output(TEXTS[-1][2], folder) and time.monotonic() < end:
            time.sleep(1)
        yield
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def page(answers: list[str]) -> str:
    parts = ["# What mica draws\n\nWritten by `scripts/pictures`, of the digits of the demo, word for word.\n"]
    for (title, about, command), answer in zip(TEXTS, answers, strict=True):
        parts.append(f"## {title}\n\n{about}:\n\n```\n$ {command}\n{answer}\n```\n")
    parts.append(
        "## In a browser\n\n`mica report digits.mica --data digits_test.npz`; the rest of the page is below: graph, "
        "memory, layers.\n\n![The report page: sizes, boards, accuracy](report.png)\n"
    )
    return "\n".join(parts)


def write(folder: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("pictures: no chromium; scripts/setup installs it")
    answers = [output(command, folder) for _, _, command in TEXTS[:-1]]
    with fleet(folder):
        answers.append(output(TEXTS[-1][2], folder))
    PAGE.write_text(page(answers), encoding="utf-8")
    output("mica report digits.mica --data digits_test.npz -o digits.html", folder)
    look = [sys.executable, ROOT / "tests" / "npm_packages.py", ROOT / "tests" / "browser" / "look.mjs"]
    subprocess.run([*look, folder / "digits.html", browser, PAGE.with_name("report.png")], check=True)


def check(folder: Path) -> int:
    old = PAGE.read_text(encoding="utf-8")
    found = [output(command, folder) for _, _, command in TEXTS[:CHECKED]]
    kept = [part.partition("\n```")[0] for part in old.split("\n$ ")[CHECKED + 1 :]]
    measured = [part.partition("\n")[2] for part in kept]
    if page([*found, *measured]) == old:
        return 0
    print(f"pictures: {PAGE.name} is not what mica says today; run scripts/pictures", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/pictures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in DEMO.glob("digits*"):
            shutil.copy(file, folder)
        if args.check:
            return check(folder)
        write(folder)
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())

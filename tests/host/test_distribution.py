"""The name on the package index: whoever follows a line of ours gets mica,
not the project that is called `mica` there."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
from pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME, EXTRAS = PROJECT["name"], PROJECT["optional-dependencies"]
# The words that pip is given, up to the end of the line, of the code, or of the sentence.
LINE = re.compile(r"\bpip[\"', ]+install[\"',]*((?: +(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s`\"')(;,]+))+)")
EXTRA = re.compile(r"(?<![\w./-])(mica(?:-\w+)?)\\?\[([a-z,]+)\\?\]")
OURS = re.compile(r"mica(?![\w-]*\.)(?:-\w+)?")


def wrong(text: str) -> list[str]:
    """Return the lines that tell people to install something else than this distribution with an extra of it."""
    found = []
    for line in LINE.finditer(text):
        for word in re.sub(r"[\"'\\]", "", line[1]).split():
            name = re.match(r"[\w.-]*", word)
            if name and OURS.fullmatch(name[0]) and name[0] != NAME:
                found.append(line[0])
    for extra in EXTRA.finditer(text):
        if extra[1] != NAME or not set(extra[2].split(",")) <= set(EXTRAS):
            found.append(extra[0])
    return found


@pytest.mark.parametrize(
    "text",
    [
        "pip install mica",
        "type: pip install --upgrade mica",
        "run `pip install mica`, then",
        "pip install numpy 'mica[fleet]'",
        'pip install "mica[sound]"',
        f"needs `{NAME}[flet]`",
        "see mica[emulators]",
        '["pip", "install", "mica"]',
    ],
)
def test_a_wrong_line_is_seen(text: str) -> None:
    assert wrong(text)


def test_every_line_that_installs() -> None:
    """Every tracked file: code, pages, workflows, scripts. The change log says what was true once."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    left, seen, bad = ("tests/host/test_distribution.py", "host_tools/CHANGELOG.md"), 0, []
    for name in listed.split("\0"):
        path = ROOT / name
        if name in ("", *left) or not path.is_file() or path.suffix in (".npz", ".mica", ".onnx", ".tflite"):
            continue
        text = path.read_bytes().decode("utf-8", "ignore")
        seen += len(LINE.findall(text))
        bad += [f"{name}: {line}" for line in wrong(text)]
    assert bad == [] and seen > 30

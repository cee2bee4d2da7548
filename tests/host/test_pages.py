"""The pages: README.md stays short, paths and options that pages name are there."""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from pages import PAGES, README, ROOT

OWN_WORDS = r"\b(?:wanted|anew|hears|doubts?|doubted|lacking)\b"  # that have a plainer or a standard one


def prose(text: str) -> str:
    """Without blocks of code, tables, comments and headings; code in a line is one word."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    return re.sub(r"`[^`]+`", "code", text)


def sentences(text: str) -> list[str]:
    paragraphs = re.split(r"\n\s*\n|\n(?=\* )", prose(text))
    return [s for p in paragraphs for s in re.split(r"(?<=[.!?:])\s+", " ".join(p.split())) if s]


def test_sentences_are_counted() -> None:
    assert sentences("# A\n\nOne `a b`, two. Three:\n\n```\nx. y\n```\n* four\n* five\n") == [
        "One code, two.",
        "Three:",
        "* four",
        "* five",
    ]


def test_readme_is_short() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 180
    assert len(text.split()) <= 1800
    long = [s for s in sentences(text) if len(s.split()) > 30]
    assert not long, long


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_are_there(page: Path) -> None:
    """Paths in backticks that begin with a folder of this tree exist, and so do the pages that a page links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    folders = "host_tools|firmware|usermod_c|boards|tests|scripts"
    named = re.findall(rf"`((?:{folders})/[\w./-]+)(?=[`\s:,])", text)
    linked = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in linked if not (page.parent / link).exists()]
    assert not missing, missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words(page: Path) -> None:
    found = re.findall(OWN_WORDS, prose(page.read_text(encoding="utf-8")))
    assert not found, found


def _commands_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_commands", ROOT / "scripts" / "commands.py")
    assert spec and spec.loader
    commands = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(commands)
    return commands


def test_commands_page() -> None:
    """COMMANDS.md agrees with the parsers."""
    commands = _commands_page()
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page(), "run scripts/commands"


def test_commands_page_is_the_same_for_every_argparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 formats `-o, --output FILE`, those before `-o FILE, --output FILE`."""
    monkeypatch.setattr(argparse.HelpFormatter, "_format_action_invocation", lambda self, action: "in another way")
    commands = _commands_page()
    assert "| `-o M.mica, --output M.mica` |" in commands.page()
    assert "in another way" not in commands.page()

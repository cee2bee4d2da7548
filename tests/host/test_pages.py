"""The pages are short and plain, and the paths and headings that they name are there."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from pages import DOCS, PAGES, README, ROOT

# Words that only this project used, each with the plain one that takes its place.
# host_tools/docs/glossary.md lists them.
PRIVATE_WORDS = {
    "anew": "again",
    "copper": "physical board",
    "doubt": "validate",
    "doubted": "validated",
    "doubts": "validates",
    "hear": "recognise",
    "heard": "recognised",
    "hears": "is told",
    "lacking": "missing",
    "lacks": "has no",
    "lean": "without dead channels",
    "settle": "round exactly",
    "tie": "pair",
    "tied": "paired",
    "ties": "pairs",
    "twins": "paired outputs",
    "wanted": "expected",
    "whatever": "any",
}
MOST_WORDS = 46_000
LONGEST_SENTENCE = 30  # words
LONGEST_LINE = 120  # columns


def prose(text: str) -> str:
    """Without code blocks, tables, comments, headings and generated parts; code in a line is one word."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
    text = re.sub(r"<!-- gen:.*?<!-- end -->", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.S | re.M)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "![")))
    text = "\n".join("" if line.startswith("    ") else line for line in text.splitlines())
    return re.sub(r"`[^`]+`", "code", text)


def sentences(text: str) -> list[str]:
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", prose(text))
    return [s for p in paragraphs for s in re.split(r"(?<=[.!?:])[\"*)]*\s+", " ".join(p.split())) if s]


def own_lines(text: str) -> list[str]:
    """Lines, of which those that a program wrote are empty: sessions, generated tables and the soak's figures."""

    def empty(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    for pattern in (r"^```\n\$ .*?^```\n", r"<!-- gen:.*?<!-- end -->"):
        text = re.sub(pattern, empty, text, flags=re.S | re.M)
    return text.splitlines()


def words(text: str) -> int:
    """Words of a page: everything between blanks that has a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def test_sentences_are_counted() -> None:
    text = "# A\n\nOne `a b`, two. Three:\n\n```\nx. y\n```\n* four\n* five\n"
    assert sentences(text) == ["One code, two.", "Three:", "* four", "* five"]


def test_words_are_counted() -> None:
    assert words("| a | b-c |\n| --- | 1 |\n* d. e") == 5


def test_readme_is_short() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert words(text) <= 1500
    assert "No physical board has been tested yet." in text


def test_all_pages_are_short() -> None:
    count = {str(page.relative_to(ROOT)): words(page.read_text(encoding="utf-8")) for page in PAGES}
    total = sum(count.values())
    assert total <= MOST_WORDS, f"{total:,} words; the longest: {sorted(count.items(), key=lambda x: -x[1])[:6]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    long = [s for s in sentences(page.read_text(encoding="utf-8")) if words(s) > LONGEST_SENTENCE]
    assert not long, "\n".join(f"{words(s)} words: {s}" for s in long)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    lines = own_lines(page.read_text(encoding="utf-8"))
    long = [f"{i}: {len(line)} columns" for i, line in enumerate(lines, 1) if len(line) > LONGEST_LINE]
    assert not long, long


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_are_there(page: Path) -> None:
    """Paths in backticks that begin with a folder of this tree exist, and so do the pages that a page links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    folders = "host_tools|firmware|usermod_c|boards|tests|scripts"
    named = re.findall(rf"`((?:{folders})/[\w./-]+)(?=[`\s:,])", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    for link, _, heading in (link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link):
        target = (page.parent / link).resolve() if link else page
        if not target.exists():
            missing.append(link)
        elif heading and heading not in anchors(target):
            missing.append(f"{link}#{heading}")
    assert not missing, missing


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub makes links of them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    found = [word for word in PRIVATE_WORDS if re.search(rf"\b{word}\b", text)]
    assert not found, {word: PRIVATE_WORDS[word] for word in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets(page: Path) -> None:
    """Python parses, and commands and their options are those of COMMANDS.md."""
    text = page.read_text(encoding="utf-8")
    for snippet in re.findall(r"^```python\n(.*?)^```$", text, flags=re.S | re.M):
        compile(snippet, str(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    unknown = []
    known = known_options()
    blocks = re.findall(r"^```(?:bash)?\n(.*?)^```$", text, flags=re.S | re.M)
    inline = [" ".join(span.split()) for span in re.findall(r"`(mica [a-z][^`]*)`", text)]
    for line in [*"\n".join(blocks).replace("\\\n", " ").splitlines(), *inline]:
        words = line.removeprefix("$ ").partition("  #")[0].split()
        if words[:1] == ["mica"]:
            found = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
            if words[1] not in known or found - known[words[1]]:
                unknown.append(line)
    assert not unknown, unknown


@cache
def known_options() -> dict[str, set[str]]:
    """The options of each command, those of its actions too."""
    text = (ROOT / "host_tools" / "COMMANDS.md").read_text(encoding="utf-8")
    sections = re.split(r"^## mica ", text, flags=re.M)[1:]
    return {part.partition("\n")[0]: {"--json", "--help", *re.findall(r"--[a-z][a-z0-9-]*", part)} for part in sections}


@pytest.mark.parametrize("page", [p for p in PAGES if p.name == "NOTES.md"], ids=lambda page: page.parent.name)
def test_notes_are_short(page: Path) -> None:
    """Each has a date and the choice, in 12 lines."""
    first, *notes = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)
    assert notes and first.startswith("# ")
    for note in notes:
        assert re.match(r".+ \(20\d\d-\d\d\)\n\n\* \*\*Chosen:\*\* ", note), note
        assert len(note.strip().splitlines()) <= 12, note


def test_glossary_has_the_private_words() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    missing = [word for word in PRIVATE_WORDS if word not in text]
    assert not missing, missing


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
    assert "* `-o M.mica, --output M.mica`: " in commands.page()
    assert "in another way" not in commands.page()

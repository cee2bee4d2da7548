"""Plain words in the code: docstrings, comments, help texts and error messages keep to STYLE's rules.

test_pages.py holds the same rules for pages.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 30  # in a sentence
# Question words that stand for a noun. A question may begin with them.
NOUN_CLAUSE = re.compile(r"(What|Whatever|Whether|Where|Which|Who|Whose|How)\b[^?]*$")
# Words of our own that once stood for the field's; host_tools/docs/glossary.md has the field's.
PRIVATE = re.compile(r"\b(hear|hears|heard|twins?|settles?|settled|wanted|joins|lean)\b", re.IGNORECASE)
_NO_WORD = re.compile(r"[=\[\]{}<>|^_]|\w\(|^\W*\d|^\W*\w?\W*$")  # formulas, code and numbers


def sentences(text: str) -> Iterator[str]:
    """The sentences of a comment. Tables, lists and code, which are indented or on lines of their own,
    end a sentence."""
    text = re.sub(r"`[^`\n]*`", "code", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s{3,}|\s*[-*|] |\s*\d+[.)] |\s*[\w\[\], ]+:\s)", text):
        yield from re.split(r"(?<=[.!?;:])\s+(?=\S)", " ".join(paragraph.split()))


def words(sentence: str) -> int:
    return sum(not _NO_WORD.search(word) for word in sentence.split())


def tracked(*endings: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *(f"*.{e}" for e in endings)], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split()]


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Help texts of options, and the texts of exceptions."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [k.value for k in node.keywords if k.arg in ("help", "description", "epilog", "todo")]
        if name.endswith(("Error", "Unsupported", "warn", "add_refusal")):
            given += node.args
        for value in given:
            parts = value.values if isinstance(value, ast.JoinedStr) else [value]
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "x" for p in parts)
            if text.strip("x"):
                yield node.lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Blocks of comments on lines of their own, and comments behind code."""
    begin, block = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = token.line.lstrip().startswith("#")
        if block and (not alone or token.start[0] != begin + len(block)):
            yield begin, "\n".join(block)
            block = []
        if not block:
            begin = token.start[0]
        block.append(token.string[1:].removeprefix(" "))
    if block:
        yield begin, "\n".join(block)


_C_COMMENT = re.compile(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+|//[^\n]*", re.DOTALL | re.MULTILINE)


def c_comments(source: str) -> Iterator[tuple[int, str]]:
    for match in _C_COMMENT.finditer(source):
        text = re.sub(r"^[ \t]*(//|/\*|\*/|\*)[ \t]?", "", match[0], flags=re.MULTILINE).removesuffix("*/")
        yield source.count("\n", 0, match.start()) + 1, text


def python_texts() -> Iterator[tuple[str, str, str]]:
    """Place, kind and text."""
    for path in tracked("py"):
        source = path.read_text(encoding="utf-8")
        try:
            tree = ast.parse(source)
        except SyntaxError:  # MicroPython's own
            continue
        name = path.relative_to(ROOT).as_posix()
        kinds: dict[str, Iterable[tuple[int, str]]] = {"docstring": docstrings(tree), "comment": comments(source)}
        if not name.startswith("tests/"):
            kinds["message"] = messages(tree)
        for kind, found in kinds.items():
            yield from ((f"{name}:{line}", kind, text) for line, text in found)


def c_texts() -> Iterator[tuple[str, str, str]]:
    for path in tracked("c", "h", "S", "inc", "js", "mjs", "css"):
        for line, text in c_comments(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT).as_posix()}:{line}", "comment", text


@functools.cache
def all_texts() -> list[tuple[str, str, str]]:
    return [*python_texts(), *c_texts()]


def long_sentence(kind: str, text: str) -> str | None:
    return next((s for s in sentences(text) if words(s) > MOST_WORDS), None)


def noun_clause(kind: str, text: str) -> str | None:
    first = next(sentences(text), "")
    return first if kind == "docstring" and NOUN_CLAUSE.match(first) else None


def private_word(kind: str, text: str) -> str | None:
    found = PRIVATE.search(re.sub(r"`[^`\n]*`", "", text))
    return f"'{found[0]}': {' '.join(text.split())[:80]}" if found else None


# First words of a docstring whose first sentence then has no verb.
VERBLESS = re.compile(r"(Of|As|By|Those|It|True:)(?!\w)")
LONGEST = 120  # columns
Rule = Callable[[str, str], str | None]
RULES: tuple[Rule, ...] = (long_sentence, noun_clause, private_word)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_text_keeps_the_rule(rule: Rule) -> None:
    wrong = [f"{where}: {found}" for where, kind, text in all_texts() if (found := rule(kind, text))]
    assert not wrong, f"{len(wrong)} texts:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "rule, text",
    [
        (long_sentence, "The board " + "and the host " * 10 + "agree."),
        (noun_clause, "What a board says of itself."),
        (noun_clause, "Whether it fits."),
        (private_word, "Models that are wanted."),
    ],
)
def test_a_text_that_breaks_the_rule_is_found(rule: Rule, text: str) -> None:
    assert rule("docstring", text)


def test_docstrings_of_the_product_begin_with_a_verb() -> None:
    wrong = [
        f"{where}: {text.partition(chr(10))[0]}"
        for where, kind, text in all_texts()
        if kind == "docstring" and not where.startswith("tests/") and VERBLESS.match(text)
    ]
    assert wrong == []


def test_no_line_of_python_or_c_is_long() -> None:
    lines = (
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked("py", "c", "h", "S", "inc", "ld")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST
    )
    assert [*lines] == []


def test_what_is_no_sentence_is_left_alone() -> None:
    assert not long_sentence("comment", "x = a + b * c " * 20)
    assert not long_sentence("comment", "\n".join(f"- item {n} of a list" for n in range(40)))
    assert not noun_clause("docstring", "What does a board say?")


def test_subjects_of_commits_are_short() -> None:
    """Since the rule is there; a copy without this history has nothing to look at."""
    command = ["git", "log", "--format=%h %s", "8260eed..HEAD"]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if log.returncode:
        pytest.skip("the history does not go back to 8260eed")
    assert [line for line in log.stdout.splitlines() if len(line.partition(" ")[2]) > 72] == []

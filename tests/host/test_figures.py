"""Figures on two pages are the same: these tests work out the second page's figures from the first.

No other figure stands on two pages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pages import BENCH, MEMORY, PACKING, PAGES, README, ROOT

# Written by commands (a test of each compares them), or a history, or a standard's constants.
NOT_COMPARED = ("COMMANDS.md", "PICTURES.md", "OPERATORS.md", "CHANGELOG.md", "SPEC.md")
MODELS = {"kws": "keyword spotting", "res": "ResNet-8", "vww": "person detection", "ad": "anomaly detection"}
STRIPS = {"ic": "ResNet-8 (ic)", "vww": "person detection (vww)", "kws": "keyword spotting (kws)"}


def section(page: Path, heading: str) -> str:
    """A section's text, of the page's headings the one that begins so."""
    parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)
    found = [part for part in parts if part.startswith(heading)]
    assert len(found) == 1, (page.name, heading)
    return found[0]


def columns(text: str) -> list[dict[str, str]]:
    """The first block of columns under a line of dashes: each row by its headings, of two alike by the first.

    A column without a value is ''.
    """
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if re.fullmatch(r"-+(  -+)+", line))
    places = [match.span() for match in re.finditer("-+", lines[rule])]
    names = [lines[rule - 1][a:b].strip() for a, b in places]
    rows = []
    for line in lines[rule + 1 :]:
        if line.startswith("```"):
            break
        row: dict[str, str] = {}
        for name, (a, b) in zip(names, places, strict=True):
            row.setdefault(name, line[a:b].strip())
        rows.append(row)
    return rows


def cells(text: str, first: str) -> list[list[str]]:
    """Rows of tables whose first cell is `first`."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] == first]


def short(value: str) -> str:
    """Two digits behind the point, one from 10 on, none from 100 on."""
    number = float(value.replace(",", ""))
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


@cache
def whole(core: str) -> dict[str, dict[str, str]]:
    """Costs of whole models on a core, by the models' names."""
    return {row["model"]: row for row in columns(section(BENCH, core))}


def accuracy() -> Iterator[str]:
    """Lines of README, from the table that scripts/accuracy writes."""
    guide = PACKING.read_text(encoding="utf-8")
    for model, name in MODELS.items():
        key, data = ("ic", "eval_jpeg") if model == "res" else (model, "eval")
        found = {row[2]: row[3:] for row in cells(guide, key) if row[1] == data}
        metric, exact, *_, samples = found["float"]
        (_, ort, ort_db, *_), (_, mica, mica_db, *_) = found["ONNX Runtime QDQ"], found["mica"]
        metric = "AUC" if metric == "auc" else metric
        db = f"{float(ort_db):.1f} / {float(mica_db):.1f}"
        yield f"| {name} | {metric} of {samples} | {exact} | {ort} | {mica} | {db} |"


def waits(model: str) -> list[str]:
    """Return M cycles of a model on a Pico and on a Pico 2, with its weights in flash."""
    (row,) = cells(section(BENCH, "Cortex-M0+"), model)
    return [short(cell.partition(",")[0]) for cell in row[1:]]


def speed() -> Iterator[str]:
    for model, name in MODELS.items():
        row = [name]
        for core in ("Cortex-M0+", "Cortex-M33", "RV32IMC", "Cortex-M55"):
            found = whole(core)[model]
            row.append(f"{short(found['whole file'])} ({short(found['best peer'])})")
        pico, pico2 = waits(model)
        row[2:3] = [pico, row[2], pico2]
        yield "| " + " | ".join(row) + " |"


def arenas() -> str:
    *others, last = (whole("Cortex-M0+")[model]["arena"] for model in MODELS)
    return f"{', '.join(others)} and {last} bytes"


def strips() -> Iterator[tuple[str, int, str]]:
    """(model, bytes, extra cycles in per cent) of each of BENCH's models in strips on the M0+ that are not fed."""
    for _, model, pack, tensors, scratch, _, ratio, *_ in cells(section(BENCH, "Strips"), "m0plus"):
        if "--feed" not in pack:
            size = int(tensors.replace(",", "")) + int(scratch.replace(",", ""))
            yield model, size, f"{100 * float(ratio) - 100:.0f} %"


def strips_of_readme() -> str:
    (_, most, little), (_, least, much) = (row for row in strips() if row[0] == "ic")
    return f"ResNet-8 takes {most:,} bytes with scratch for {little} more cycles, or {least:,} for {much}"


def strips_of_guide() -> Iterator[str]:
    for model, size, more in strips():
        layers = whole("Cortex-M0+")["res" if model == "ic" else model]
        before = sum(int(layers[name].replace(",", "")) for name in ("arena", "scratch"))
        yield f"| {STRIPS[model]} | {before:,} | {size:,} | {more} |"


def four_bits() -> Iterator[str]:
    """The beginnings of the rows on four bits: float and int8 of the table of accuracy, in per cent."""
    for row in accuracy():
        _, metric, exact, _, mica, _ = (cell.strip() for cell in row.strip("|").split("|"))
        if metric.startswith("AUC"):
            yield f"| {float(exact):.3f} | {float(mica):.3f} |"
        else:
            yield f"| {100 * float(exact):.1f} % | {100 * float(mica):.1f} % |"


def forest() -> str:
    (row,) = (r for r in cells(section(BENCH, "A forest"), "mica, from float32 features to the class"))
    return f"is a file of {int(row[2].split(',')[0]):d} KB"


def fed() -> str:
    (row,) = (r for r in cells(section(BENCH, "Strips"), "m0plus") if "--feed" in r[2])
    return f"for {100 * float(row[6]) - 100:.1f} % more cycles"


def story() -> str:
    """Return README's phrase about a token of the story teller, from BENCH.md."""
    pico, _ = waits("story")
    return f"at {float(pico):.1f} M cycles a token"


def said() -> Iterator[tuple[Path, str]]:
    """A page, and its phrase with figures that another page has."""
    for row in (*accuracy(), *speed()):
        yield README, row
    yield README, arenas()
    yield README, strips_of_readme()
    yield README, story()
    for row in strips_of_guide():
        yield MEMORY, row
    for row in four_bits():
        yield MEMORY, row
    yield MEMORY, fed()
    yield PACKING, forest()


def spaced(page: Path) -> str:
    """In one line, without sessions, which tests type."""
    text = re.sub(r"^```pycon.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return " ".join(text.split())


def test_columns() -> None:
    text = "```\nmodel  whole  goal  whole\n-----  -----  ----  -----\n"
    text += "a       1.50         9.00\nb         22  3.00   8.00\n```\n"
    assert columns(text) == [{"model": "a", "whole": "1.50", "goal": ""}, {"model": "b", "whole": "22", "goal": "3.00"}]


def test_said_alike() -> None:
    missing = [f"{page.relative_to(ROOT)} should say: {text}" for page, text in said() if text not in spaced(page)]
    assert not missing, "\n".join(missing)


def figures(text: str) -> set[str]:
    """Numbers that hardly occur by chance: four digits or more with a comma and not round, or four decimals."""
    found = set(re.findall(r"(?<![\w.,/])(?:\d{1,3}(?:,\d{3})+|0\.\d{4,})(?![\w.,]?\d)", text))
    values = {figure: int(figure.replace(",", "")) for figure in found if "," in figure}
    return {figure for figure in found if figure not in values or (values[figure] % 500 and values[figure] % 1024)}


def test_figures() -> None:
    assert figures("16,001 of 16,000; 0.9154, 1,024 bytes, 3.14159 and 2,049.") == {"16,001", "0.9154", "2,049"}


def test_no_other_figure_stands_twice() -> None:
    pages = defaultdict(list)
    for page in PAGES:
        if page.name in NOT_COMPARED:
            continue
        text = spaced(page)
        for row in (row for where, row in said() if where == page):
            text = text.replace(" ".join(row.split()), "")
        for figure in figures(text):
            pages[figure].append(str(page.relative_to(ROOT)))
    twice = {figure: where for figure, where in pages.items() if len(where) > 1}
    assert not twice, f"say it once, or work it out in {Path(__file__).name}: {twice}"

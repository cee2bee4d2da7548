"""`mica report` and `pack --report`: one file, without a script or an address, whose numbers are those of --json."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from helpers import DEMO, ROOT, mica, pack, reference_model
from tones import BANDS, FRAMES, FRONT_END, save_net

from mica.sound import front_ends

VOID = {"meta", "link", "br", "img", "path", "rect", "polyline"}


class Page(HTMLParser):
    """Check that elements close, and keep the facts, the text, and links to other places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.elsewhere: list[str] = []
        self.facts: Any = None
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elsewhere += [
            v for k, v in attrs if k in ("src", "href", "action") and v and v[:1] != "#" and v != "data:,"
        ]
        assert tag != "script" or given["type"] == "application/json"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.facts = json.loads(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)


def page_of(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 400_000 and "@import" not in text and "url(" not in text
    return Page(text)


def test_of_a_file(tmp_path: Path, digits: Path) -> None:
    out = tmp_path / "d.html"
    data = DEMO / "digits_test.npz"
    result = mica("report", digits, "--data", data, "-o", out, "--board", "RPI_PICO", "--json")
    assert (result.code, result.err) == (0, "")
    page, facts = page_of(out), result.json
    assert page.facts == facts and page.elsewhere == []
    info = mica("info", digits, "--json").json
    for key in ("arena_bytes", "scratch_want", "macs", "size", "version"):
        assert facts[key] == info[key]
    fit = mica("fit", digits, "--board", "RPI_PICO", "--json").json
    (board,) = facts["boards"]
    assert board["total"] == fit["time"]["total"]
    assert board["layers"] == [layer["cost"] for layer in fit["layers"]]
    assert facts["evaluation"] == mica("eval", digits, data, "--json").json
    shown = " ".join(page.words)
    for number in (facts["arena_bytes"], board["total"], *(layer["macs"] for layer in facts["layers"])):
        assert f"{number:,}" in shown
    made = {t["name"] for t in facts["inputs"]}
    for layer in facts["layers"]:  # every wire of the graph begins somewhere
        assert set(layer["inputs"]) <= made
        made.add(layer["output"]["name"])


def test_of_a_pack(tmp_path: Path) -> None:
    out = tmp_path / "d.html"
    calib = DEMO / "digits_calib.npz"
    words = (
        "pack",
        DEMO / "digits.onnx",
        "--calib",
        calib,
        "--plain",
        "-o",
        tmp_path / "d.mica",
        "--report",
        out,
        "--json",
    )
    result = mica(*words)
    page, packed = page_of(out), result.json
    assert result.code == 0 and page.facts["quality"] == packed["quality"]
    assert [layer["sqnr_db"] for layer in page.facts["layers"]] == [layer["sqnr_db"] for layer in packed["layers"]]
    assert page.facts["source"]["gone"]["BatchNormalization"] == 5 and page.facts["source"]["kept"] == len(
        packed["layers"]
    )


def test_names_are_text(tmp_path: Path) -> None:
    """A name cannot end a script, nor begin an element."""
    from mica.file import codec
    from mica.report.facts import facts
    from mica.report.page import Report

    model = codec.decode((ROOT / "tests" / "format" / "golden" / "v1.1.mica").read_bytes())
    model.metadata["name"] = "</script><b onclick=x>"
    page = Report(facts(model, codec.encode(model)), model)
    (tmp_path / "p.html").write_text(page.html(), encoding="utf-8")
    assert page_of(tmp_path / "p.html").facts["name"] == "</script><b onclick=x>"
    assert re.search(r"<b onclick", page.html()) is None and 'srcdoc="&lt;!DOCTYPE html&gt;' in page._repr_html_()


def test_of_large_models(tmp_path: Path) -> None:
    for name, options in (("kws", ()), ("ic", ("--ram", "32000"))):
        out = tmp_path / f"{name}.html"
        packed = pack(reference_model(name) / "model_qdq.onnx", tmp_path / f"{name}.mica", *options)
        assert mica("report", packed, "-o", out).code == 0
        page = page_of(out)
        assert bool(page.facts["strips"]) == bool(options) and ("Strips" in page.words) == bool(options)


def test_front_end(tmp_path: Path) -> None:
    """The page draws the bands of the definition: which bins each takes, and its gains relative to the largest."""
    save_net(tmp_path / "net.onnx")
    packed = pack(tmp_path / "net.onnx", tmp_path / "net.mica", "--frontend", FRONT_END)
    result = mica("report", packed, "-o", tmp_path / "net.html", "--json")
    page, facts = page_of(tmp_path / "net.html"), result.json["front_end"]
    assert {k: v for k, v in facts.items() if k != "bands"} == {
        "rate": 16000, "frame": 320, "hop": 160, "fft": 512, "rows": FRAMES, "columns": BANDS,
    }  # fmt: skip
    expected = front_ends.parse(FRONT_END).front_end(FRAMES).filters
    found = np.zeros_like(expected)
    for row, (first, gains) in zip(found, facts["bands"], strict=True):
        row[first : first + len(gains)] = gains
    np.testing.assert_allclose(found, expected / expected.max(), atol=1e-3)
    assert "Front end" in page.words and (tmp_path / "net.html").read_text().count("<polyline") == BANDS


def test_bad_arguments(tmp_path: Path, digits: Path) -> None:
    result = mica("report", digits, "-o", digits)
    assert result.code == 1 and "would be overwritten" in result.err and result.err.count("\n") == 1
    result = mica("report", digits, "-o", tmp_path / "x.html", "--board", "NOPE")
    assert result.code == 1 and "NOPE" in result.err and not (tmp_path / "x.html").exists()

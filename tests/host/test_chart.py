"""The arena chart: the place of each tensor at each step, in the terminal and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from nets import Net
from random_nets import RandomNet

from mica.cli.main import main
from mica.compile import compile_file
from mica.plan.plan import Plan
from mica.report import svg
from mica.report.arena_chart import Chart, chart, lines

SVG = "{http://www.w3.org/2000/svg}"


def residual(folder: Path) -> Path:
    net = Net()
    x = net.input([1, 16, 8, 8])
    a = net.add("Relu", net.conv(x, 16, 32, pads=[1] * 4, name="widen"))
    b = net.conv(a, 32, 16, pads=[1] * 4, name="narrow")
    net.output(net.add("Tanh", net.add("Add", x, b, name="sum"), name="bend"))
    return net.save(folder)


def joined(folder: Path) -> Path:
    """Three matrix products whose results are joined, and one slice of that: bytes under several names."""
    net = Net()
    x = net.input([1, 64])
    y = net.add("Concat", *(net.add("Gemm", x, net.random(64, 32)) for _ in range(3)), axis=1)
    z = net.add("Slice", y, net.const([16]), net.const([80]), net.const([1]))
    net.output(net.add("Gemm", y, net.random(96, 10)))
    net.output(net.add("Tanh", z))
    return net.save(folder)


def charted(path: Path) -> tuple[Chart, Plan]:
    compiled = compile_file(path)
    return chart(compiled.model), compiled.plan


def test_blocks_of_a_residual_net(tmp_path: Path) -> None:
    c, p = charted(residual(tmp_path))
    assert c.arena_bytes == p.arena_bytes
    assert [c.in_use(k) for k in range(len(c.steps))] == p.live_bytes
    assert c.steps[c.peak] == p.peak_step
    by_label = {b.label: b for b in c.blocks if b.maker != "transpose_s8"}
    assert by_label["widen"].bytes == 2048
    assert by_label["narrow"].first == by_label["widen"].first + 1 == by_label["widen"].last
    assert by_label["bend"].offset == by_label["sum"].offset  # a table in place
    assert by_label["sum"].last == by_label["bend"].first - 1


def test_lines(tmp_path: Path) -> None:
    c, p = charted(residual(tmp_path))
    head, *rows = lines(c).splitlines()
    assert head.endswith(f"{p.arena_bytes:,} bytes")
    assert len(rows) == len(p.steps)
    for k, row in enumerate(rows):
        bar, rest = row[1:].split("|")
        assert len(bar) == 64
        assert rest.split()[:2] == [f"{p.live_bytes[k]:,}", c.steps[k]]
        assert row.endswith("<- peak") == (k == c.peak)
        assert any(letter.isupper() for letter in bar)
        assert abs((64 - bar.count(".")) - p.live_bytes[k] * 64 / p.arena_bytes) <= 2 * len(c.alive(k))


def test_joined_bytes_are_taken_from_the_first_part_on(tmp_path: Path) -> None:
    c, p = charted(joined(tmp_path))
    assert any(b.joined for b in c.blocks)
    assert [c.in_use(k) for k in range(len(c.steps))] == p.live_bytes
    assert ":" in lines(c).splitlines()[1]


@pytest.mark.parametrize("make", [residual, joined])
def test_picture(make, tmp_path: Path) -> None:
    """Well-formed; a rectangle a block, inside the picture, with a title that says all; the peak stands out."""
    c, _ = charted(make(tmp_path))
    root = ET.fromstring(svg.draw(c))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    titled = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert len(titled) == len(c.blocks)
    for r in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(r.get(k, 0)) for k in ("x", "y", "width", "height"))
        assert w > 0
        assert h > 0
        assert -1 <= x <= x + w <= width + 1
        assert -1 <= y <= y + h <= height + 1
    texts = ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]
    assert f"peak: {c.in_use(c.peak):,} bytes in use" in texts
    assert all(any(t == f"{k} {name}" for t in texts) for k, name in enumerate(c.steps))


def test_names_are_escaped(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Relu", net.input([1, 8]), name='a<b>&"c'))
    c, _ = charted(net.save(tmp_path))
    assert '0 a<b>&"c' in ["".join(t.itertext()) for t in ET.fromstring(svg.draw(c)).iter(f"{SVG}text")]


def test_model_without_steps(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Identity", net.input([1, 8])))
    c, _ = charted(net.save(tmp_path))
    assert c.steps or "no step" in lines(c)
    ET.fromstring(svg.draw(c))


def test_random_nets(tmp_path: Path) -> None:
    """The chart, read back from the file, agrees with the plan that made it."""
    for seed in range(20):
        c, p = charted(RandomNet(seed).save(tmp_path))
        assert all(0 <= b.offset < b.end <= c.arena_bytes for b in c.blocks)
        assert max((c.in_use(k) for k in range(len(c.steps))), default=0) <= p.lower_bound
        ET.fromstring(svg.draw(c))


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = residual(tmp_path)
    packed, picture = str(tmp_path / "m.mica"), tmp_path / "plan.svg"
    assert main(["pack", str(model), "-o", packed, "--chart", "--chart-file", str(picture)]) == 0
    drawn = capsys.readouterr().out
    assert "<- peak" in drawn
    assert picture.read_text().startswith("<svg")
    picture.unlink()
    assert main(["info", packed, "--chart"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == drawn.splitlines()[-3:]
    assert main(["info", packed, "--json", "--chart-file", str(picture)]) == 0
    assert picture.exists()
    assert main(["info", packed, "--chart-file", str(tmp_path / "plan.png")]) == 1
    assert "svg" in capsys.readouterr().err

"""The site of scripts/docs in Debian's Chromium: no error, no other host, readable wide and narrow, light and dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import npm_packages
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = ["index.html", "host_tools/docs/from-pytorch.html", "host_tools/COMMANDS.html"]
REPORT = "host_tools/digits.html"
WORD = "Requantisation"  # for the search; SPEC defines it

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a copy without git has no list of pages")


def make(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "docs.py", "-o", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = make(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    """All that a page loads or links to is a file of the site, by a relative path; other hosts are only links."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?!a\b)[a-z]+\b[^>]*?\s(?:href|src)=\"([^\"]+)\"", text)
        linked = [
            link for link in re.findall(r"<a\b[^>]*?\shref=\"([^\"]+)\"", text) if not link.startswith("https://")
        ]
        for link in (*loaded, *linked):
            path, _, heading = link.partition("#")
            target = (page.parent / path if path else page).resolve()
            assert link.startswith("data:") or (target.is_file() and target.is_relative_to(site)), f"{page}: {link}"
            if heading and target.suffix == ".html":
                assert f'id="{heading}"' in target.read_text(encoding="utf-8"), f"{page}: {link}"
    for style in site.rglob("*.css"):
        for link in re.findall(r"url\(\"?([^)\"]+)", style.read_text(encoding="utf-8")):
            assert link.startswith("data:") or (style.parent / link).is_file(), f"{style}: {link}"


def test_every_page_is_in_it(site: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in listed:
        html = re.sub(r"(README)?\.md$", lambda found: "index.html" if found[1] else ".html", name.removeprefix("."))
        assert (site / html).exists() != ("TEMPLATE" in name), name


def test_again_is_the_same(site: Path, tmp_path: Path) -> None:
    assert make(tmp_path / "again").returncode == 0
    assert subprocess.run(["diff", "-r", site, tmp_path / "again"], check=False).returncode == 0


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    done = make(tmp_path)
    assert done.returncode and "scripts/docs did not make it" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_in_chromium(site: Path) -> None:
    browser = shutil.which("chromium")
    assert browser, "scripts/setup installs chromium"
    printed = npm_packages.run(HERE / "site.mjs", site, browser, WORD, *PAGES, REPORT)
    seen: list[dict[str, Any]] = json.loads(printed)
    assert len(seen) == 4 * (len(PAGES) + 1)
    for view in seen:
        assert view["errors"] == view["requests"] == view["broken"] == [], view
        assert view["overflow"] <= 0, f"a page that has to be pushed sideways: {view}"
        assert view["texts"] > 20 and view["contrast"][0] >= 4.5, view
        assert view["back"] > 0.8 if view["colorScheme"] == "light" else view["back"] < 0.1, view
        if view["name"] != REPORT and view["colorScheme"] == "dark":
            assert view["found"][0].endswith("SPEC.html#_2-arithmetic") and view["none"].startswith("No section"), view
            assert view["arrived"] == "The .mica format, version 1"

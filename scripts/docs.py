"""Makes a site of all pages: static HTML that is read without any network, from a folder or from a web server."""

import argparse
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from gen_format import kernels_page

ROOT = Path(__file__).resolve().parents[1]
REPORT, KERNELS = "host_tools/digits.html", "host_tools/kernels.md"
# A page belongs to the first pattern that fits it, in this order; the last group takes all others.
GROUPS = {
    "Start": "README.md",
    "Tutorials": "*/docs/README.md */docs/from-* */gesture.md */own-words.md */camera.md */other-firmware.md",
    "Guide": "*/packing.md */sound.md */docs/memory.md */text.md */docs/[!g]*",
    "Reference": f"*/COMMANDS.md */glossary.md */SPEC.md {KERNELS} */OPERATORS.md */BENCH.md */PICTURES.md {REPORT} "
    "*/CHANGELOG.md",
    "Boards and runtime": "boards/* firmware/* usermod_c/README.md */FLEETS.md host_tools/web/*",
    "Work on mica": "github/* tests/* usermod_c/KERNELS.md *",
}
LINKS = {"anchors": "warn", "unrecognized_links": "warn", "absolute_links": "warn"}
THEME = {"name": "mkdocs", "highlightjs": False, "color_mode": "auto", "search_index_only": True}


def output(*command: object) -> str:
    return subprocess.run([*map(str, command)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def heading_id(heading: str, separator: str) -> str:
    """Return the id that GitHub gives a heading; the theme's scripts cannot read one that begins with a digit."""
    return re.sub(r"^(?=\d)", "_", re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator))


def page_text(text: str) -> str:
    """Indent the lines of list items by four, as Python-Markdown expects, and name folders and headings as here."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<=\]\()([./]*)\.github/", r"\1github/", parts[i])
        parts[i] = re.sub(r"(\]\([^)]*#)(?=\d)", r"\1_", parts[i])
        items = r"^(?:[*-]|\d+\.) .*\n(?:(?: +\S.*)?\n| +\S.*$)*"
        parts[i] = re.sub(items, lambda item: item[0].replace("\n  ", "\n    "), parts[i], flags=re.M)
    return "".join(parts)


def copy_pages(folder: Path) -> list[str]:
    """Copy pages and their pictures, and make the report and the page of kernels; return their names.
    Forms for GitHub are no pages."""
    names = [name for name in output("git", "ls-files", "*.md").split() if "TEMPLATE" not in name]
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        copy = folder / name.removeprefix(".")  # web servers hide .github
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(page_text(text), encoding="utf-8")
        for picture in re.findall(r"!\[[^\]]*\]\(([^):]+)\)", text):
            target = copy.parent / picture
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile((ROOT / name).parent / picture, target)
    (folder / KERNELS).write_text(kernels_page(), encoding="utf-8")
    demo = ROOT / "host_tools" / "mica" / "demo"
    data = ["--calib", demo / "digits_calib.npz", "--data", demo / "digits_test.npz"]
    output(sys.executable, "-m", "mica", "report", demo / "digits.onnx", *data, "-o", folder / REPORT)
    return [*(name.removeprefix(".") for name in names), KERNELS, REPORT]


def navigation(names: list[str]) -> list[dict[str, Any]]:
    left, groups = sorted(names), []
    for title, patterns in GROUPS.items():
        found = dict.fromkeys(name for pattern in patterns.split() for name in left if fnmatch(name, pattern))
        left = [name for name in left if name not in found]
        items = [{"A report": name} if name == REPORT else name for name in found]
        groups.append({title: items if len(items) > 1 else items[0]})
    return groups


def write(site: Path) -> None:
    """Build the site. The same commit gives the same bytes. A link without a target is an error."""
    os.environ["SOURCE_DATE_EPOCH"] = output("git", "log", "-1", "--format=%ct").strip()
    from mkdocs.commands.build import build
    from mkdocs.config.defaults import MkDocsConfig

    config = MkDocsConfig()
    with tempfile.TemporaryDirectory() as pages:
        config.load_dict({"site_name": "mica", "docs_dir": pages, "site_dir": str(site), "use_directory_urls": False})
        config.load_dict({"strict": True, "validation": {"nav": {"omitted_files": "warn"}, "links": LINKS}})
        config.load_dict(
            {"theme": THEME | {"custom_dir": str(ROOT / "scripts" / "site")}, "extra_css": ["css/site.css"]}
        )
        config.load_dict({"extra_javascript": [{"path": "js/search.js", "defer": True}]})
        config.load_dict({"markdown_extensions": [{"toc": {"slugify": heading_id}}, "sane_lists"]})
        config.load_dict({"nav": navigation(copy_pages(Path(pages)))})
        if any(problems := config.validate()):
            raise SystemExit(f"docs: {problems}")
        config.theme.static_templates.clear()  # they need the site's address
        build(config)
    (site / "sitemap.xml").unlink()
    index = site / "search" / "search_index.json"
    entries = json.loads(index.read_text(encoding="utf-8"))["docs"]
    titles = {entry["location"]: entry["title"] for entry in entries}
    sections = [e | {"page": titles[e["location"].partition("#")[0]]} for e in entries if "#" in e["location"]]
    index.with_suffix(".js").write_text(f"const sections = {json.dumps(sections)};\n", encoding="utf-8")
    index.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/docs", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("site"), metavar="FOLDER", help="default: site")
    site = parser.parse_args().output.resolve()
    if site.exists() and not (site / "search" / "search_index.js").exists():
        parser.error(f"{site}: it exists, and scripts/docs did not make it; name another folder")
    logging.basicConfig(level=logging.WARNING, format="docs: %(message)s")
    write(site)
    print(site / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())

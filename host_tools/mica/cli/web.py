"""mica web: models in a browser of this computer.

A page opens at 127.0.0.1 that runs models by itself: digits to draw, words to say, and the report of any .mica file.
"""

import argparse
import tempfile
import threading
from pathlib import Path

from mica.cli import text
from mica.cli.text import say
from mica.errors import MicaError

JSON_KEYS = "address, folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", metavar="FOLDER", nargs="?", help="its .mica files are on the page, beside mica's own"
    )
    parser.add_argument("--port", metavar="N", type=int, default=8080, help="0: any that is free; default: 8080")
    parser.add_argument(
        "--no-pico",
        action="store_true",
        help="leave out the virtual Pico and the native modules, which take minutes to build once",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="SITE",
        help="write the page into this new folder, for a server of static files; serve nothing",
    )


def run(args: argparse.Namespace) -> int:
    from mica.web import server

    models = Path(args.models) if args.models else None
    if models and not models.is_dir():
        raise MicaError(f"{models}: no such folder", todo="give a folder with .mica files")
    if not 0 <= args.port < 1 << 16:
        raise MicaError(f"--port {args.port}: expected 0 to 65535")
    if args.output:
        if Path(args.output).exists():
            raise MicaError(f"-o {args.output}: is there already", todo="name a new folder")
        _make(Path(args.output), models, not args.no_pico)
        text.emit_json({"address": None, "folder": args.output}) if args.json else print(
            f"{args.output}: serve this folder"
        )
        return 0
    try:
        httpd = server.bind(args.port)  # before the page is made, which may take minutes
    except OSError as error:
        raise MicaError(f"--port {args.port}: {error.strerror}", todo="--port 0 takes one that is free") from None
    with httpd, tempfile.TemporaryDirectory(prefix="mica-web-") as work:
        _make(Path(work) / "site", models, not args.no_pico)
        httpd.show(Path(work) / "site")
        address = f"http://127.0.0.1:{httpd.server_address[1]}/"
        if args.json:
            text.emit_json({"address": address, "folder": None})
        else:
            print(f"{address} (Ctrl-C ends it)", flush=True)
        try:
            httpd.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _make(out: Path, models: Path | None, pico: bool) -> None:
    """The page, with a warning for each file that is no model."""
    from mica.web import site

    slow = threading.Timer(
        3,
        say,
        ["the first start builds a Pico's firmware and native modules, some 5 minutes; --no-pico leaves them out"],
    )
    if pico:
        slow.start()
    try:
        left = site.make(out, models, pico, **({} if pico else {"native": ()}), progress=say)
    finally:
        slow.cancel()
    for line in left:
        say(f"warning: left out: {line}")

"""Firmware without any part of mica, as others build it: native modules are installed on it."""

import dataclasses
import shutil
from pathlib import Path

from mica.boards import load_board
from mica.toolchain import build
from mica.toolchain.cache import cache_dir
from mica.toolchain.micropython import MicroPython

# What the port freezes itself, but for drivers of sensors that lie in another repository.
_RP2 = 'freeze("$(PORT_DIR)/modules")\ninclude("$(MPY_DIR)/extmod/asyncio")\n'


def stock_image(name: str, micropython: MicroPython | None = None) -> Path:
    """The image for the board `name`, built when it is not up to date. On rp2 it starts as the port's own does."""
    facts = load_board(name)
    if facts.port.name == "rp2":
        folder = cache_dir() / "stock" / name
        shutil.copytree(facts.folder, folder, dirs_exist_ok=True)
        (folder / "manifest.py").write_text(_RP2, encoding="utf-8")
        facts = dataclasses.replace(facts, folder=folder)
    return build.build(facts, usermod=False, micropython=micropython).image

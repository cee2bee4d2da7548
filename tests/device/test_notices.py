"""Notices: from a linker's map to the licences of its objects. tests/e2e/test_release.py has a whole firmware's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mica.cli.main import main
from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain import notices
from mica.toolchain.build import BuildResult

MIT = "Permission is hereby granted, free of charge.\n"

# Line ends and wraps as GNU ld and GCC write them.
MAP = """\
Archive member included to satisfy reference by file (symbol)

/usr/lib/some/where/libm.a(e_pow.o)
                              {obj}/py/a.o (pow)
libown.a(inner.c.obj)         {obj}/py/a.o (inner)
libblob.a(radio.o)            {obj}/py/a.o (radio)

LOAD {obj}/py/a.o
LOAD {obj}/CMakeFiles/b.c.obj
LOAD {obj}/shared/switch.o
LOAD CMakeFiles/f.dir{tree}/lib/b/src/far.S.o
LOAD sdk/boot/CMakeFiles/f.dir/near.S.o
LOAD lost.o
LOAD /usr/lib/some/where/libm.a
"""


@pytest.fixture
def build(tmp_path: Path) -> tuple[Path, Path]:
    """(obj, tree): a tree with two components, and the output of a build of it."""
    tree, obj = tmp_path / "tree", tmp_path / "obj"
    files = {
        "LICENSE": "The whole: MIT\n",
        "py/a.c": "/*\n * This file is part.\n * Copyright (c) 2013 Ann A.\n *\n * " + MIT + " */\nint a;\n",
        "py/a.h": "/*\n * This file is part.\n * Copyright (c) 2014 Ben B.\n *\n * " + MIT + " */\n/* no notice */\n",
        "lib/b/COPYING": "Component b: BSD-3\n",
        "lib/b/src/b.c": "#include <x.h>\n// Copyright 2001 Cy C.\n// SPDX-License-Identifier: BSD-3-Clause\nint b;\n",
        "lib/own/inner.c": "/* (c) 1999 Dee D. in the public domain */\n",
        "lib/unused/LICENSE": "Component unused: GPL\n",
        "lib/unused/u.c": "/* Copyright 1985 Eve E. */\n",
        "extmod/asyncio/core.py": "# Copyright (c) 2019 Flo F.\n\nx = 1\n",
        "shared/switch.s": "// Copyright 2010 Gil G.\n",
        "lib/b/src/far.S": "/* Copyright 2011 Hal H. */\n",
        "lib/sdk/boot/near.S": "/* Copyright 2012 Ida I. */\n",
        "ports/p/Makefile": "",
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = {
        "firmware.map": MAP.format(obj=obj, tree=tree),
        "py/a.o": "",
        "py/a.P": f"../../obj/py/a.o: ../../py/a.c \\\n {tree}/py/a.h /usr/include/stdint.h \\\n "
        f"{obj}/genhdr/g.h\n\n../../py/a.c:\n",
        "shared/switch.o": "",
        f"CMakeFiles/f.dir{tree}/lib/b/src/far.S.o": "",
        "sdk/boot/CMakeFiles/f.dir/near.S.o": "",
        "genhdr/g.h": "/* Copyright 2000 nobody: generated */\n",
        "CMakeFiles/b.c.obj": "",
        "CMakeFiles/b.c.obj.d": f"b.c.obj: {tree}/lib/b/src/b.c\n",
        "frozen_mpy/asyncio/core.mpy": "",
        "compile_commands.json": json.dumps(
            [{"directory": str(tree), "file": "lib/own/inner.c", "command": "gcc -c x -o esp/inner.c.obj"}]
        ),
    }
    for name, text in made.items():
        path = obj / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return obj, tree


def test_from_map_to_notices(build: tuple[Path, Path]) -> None:
    obj, tree = build
    found = notices.linked(obj, tree / "ports" / "p", tree)
    assembled = {"shared/switch.s", "lib/b/src/far.S", "lib/sdk/boot/near.S"}
    names = {path.relative_to(tree).as_posix() for path in found.sources if path.is_relative_to(tree)}
    assert names == {
        "py/a.c",
        "py/a.h",
        "lib/b/src/b.c",
        "lib/own/inner.c",
        "extmod/asyncio/core.py",
        *assembled,
    }
    assert found.toolchain == {Path("/usr/lib/some/where/libm.a")}
    assert found.unknown == {"lost.o", "libblob.a(radio.o)"}
    text = notices.notices("X", found, tree)
    for expected in ("The whole: MIT", "Component b: BSD-3", "Cy C.", "Dee D.", "Flo F.", "the mica authors"):
        assert expected in text, expected
    for other in ("unused", "Eve E.", "nobody: generated", str(tree)):
        assert other not in text, other
    # Two holders of one text: it stands there once, with both.
    assert text.count("This file is part.") == 1
    at = text.index("This file is part.")
    assert "py/a.c  py/a.h\n\nCopyright (c) 2013 Ann A.\nCopyright (c) 2014 Ben B.\n" in text[at - 200 : at]
    assert "BSD-3-Clause: https://spdx.org/licenses/BSD-3-Clause.html" in text
    last = text.rpartition("of unknown licence here")[2]
    assert all(name in last for name in ("lost.o", "libblob.a(radio.o)", "libm.a"))


def test_no_map(tmp_path: Path) -> None:
    with pytest.raises(MicaError, match="has no linker map"):
        notices.linked(tmp_path, tmp_path, tmp_path)


def test_a_comment_without_its_marks() -> None:
    text = "int x; // a licence matter, no comment of its own\n  // Copyright 1\n  // second line\n/* nothing */\n"
    assert list(notices.comments(text, ".c")) == ["Copyright 1\nsecond line"]
    assert list(notices.comments('x = "# Copyright"\n# Copyright 2\n#\n# two\n', ".py")) == ["Copyright 2\n\ntwo"]


def test_own_licence_is_the_projects() -> None:
    licence = data_dir("usermod_c").parent / "LICENSE"
    assert licence.is_file() and notices.own_licence() == licence.read_text()


def test_own_licence_of_an_installed_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Outside a checkout there is no file beside the sources: the installed distribution has the text, or its name."""
    monkeypatch.setattr(notices, "data_dir", lambda _: tmp_path / "usermod_c")
    assert "MIT" in notices.own_licence()


def test_build_writes_them_beside_the_image(
    firmware: Callable[[str], BuildResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every object that the linker took is known, those of our own assembly and of the port's too."""
    firmware("MPS2_AN385")
    assert main(["build", "--board", "MPS2_AN385", "-o", str(tmp_path / "image.elf"), "--json"]) == 0
    path = Path(json.loads(capsys.readouterr().out)["notices"])
    assert path == tmp_path / "image.elf.NOTICES.txt"
    text = path.read_text()
    for expected in ("Damien P. George", "The littlefs authors", "SPDX-License-Identifier: BSD-3-Clause", "ChaN"):
        assert expected in text, expected
    assert ".o" not in text.partition("of unknown licence here")[2]

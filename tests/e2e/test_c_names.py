"""`mica cc`: all names of a program begin with its own, so that several are linked into one;
texts become its inputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import bare_metal
import numpy as np
import pytest
import usermod_models as models
from c_programs import SANITIZED, SMALL, STRICT, program, put, write
from targets import ALL

from mica.c_program.folder import Program
from mica.c_program.sources import LOADER, TOKENISER, Engine
from mica.file.codec import ModelFile, encode
from mica.file.model_file import StepRecord, TensorRecord
from mica.file.tokens import Tokens, listed
from mica.file.tokens import encode as to_tokens
from mica.kernels import PARTS
from mica.resources import data_dir

BOTH = """\
#include "one.h"
#include "other.h"
int main(void) {
    return one_self_test() == ONE_GOLDEN_CRC && other_self_test() == OTHER_GOLDEN_CRC
        && one_self_test() == ONE_GOLDEN_CRC ? 0 : 1;
}
"""
# A text is an argument, the inputs of the run are its output.
TEXTS = """\
#include <stdio.h>
#include <string.h>
#include "net.h"
static uint32_t work[4096];
int main(int n, char **texts) {
    if (net_begin() != 0) { return 2; }
    for (int k = 1; k < n; ++k) {
        const int32_t count = net_tokens(texts[k], (uint32_t)strlen(texts[k]), work);
        printf("%ld", (long)count);
        for (int32_t i = 0; i < count; ++i) { printf(" %u", ((uint16_t *)work)[i]); }
        SHOW
        printf("\\n");
    }
    return 0;
}
"""
SHOW = """\
printf(" %d:", net_text(texts[k], (uint32_t)strlen(texts[k]), work));
        for (uint32_t i = 0; i < NET_INPUT_COUNT; ++i) { printf(" %ld/%d/%ld", (long)net_input()[i], net_input1()[i],
            (long)net_input2()[i]); }
"""
PIECES = (b"", b"?", b"[", b"]", b"a", b"b", b"ab", b"abc", b"c", b" ", "ü".encode())


def classes() -> ModelFile:
    """A classifier of texts of six tokens, with a mask of int8 and kinds; never run."""
    facts = [
        TensorRecord("token", "int32", (1, 6), offset=0),
        TensorRecord("mask", "int8", (1, 6), 1.0, 0, offset=32),
        TensorRecord("kind", "int32", (1, 6), offset=48),
        TensorRecord("rows", "int8", (1, 6, 4), 0.05, 0, offset=80),
    ]
    table = np.random.default_rng(4).integers(-60, 60, (len(PIECES), 4), dtype=np.int8)
    steps = [StepRecord("look", "embedding_s8", (0,), (3,), params={"rows": len(PIECES)}, blobs={"table": table})]
    places = {"begin": 2, "end": 3, "token": 0, "length": 1, "position": 2, "padding": 0, "unknown": 1}
    tokens = listed(Tokens(PIECES, flags=1 << 3, **places), hidden=(0, 1, 2, 3))
    return ModelFile(facts, steps, [0, 1, 2], [3], {"name": "classes"}, tokens=tokens)


@pytest.mark.parametrize("core", [core for core in bare_metal.CORES if ALL or core == "m0plus-qemu"])
def test_every_name_is_the_programs(core: str, tmp_path: Path) -> None:
    """All kernels and parts of the engine: its names, and those that assembly and tables define."""
    emulated = bare_metal.CORES[core]
    if reason := bare_metal.available(emulated):
        pytest.skip(reason)
    engine = Engine(data_dir("usermod_c"), PARTS, [emulated.isa], (*LOADER, *TOKENISER), "net")
    sources = [put(tmp_path / path, text) for path, text in engine.texts()]
    gcc = [f"{emulated.tools[0]}gcc", *emulated.flags, "-std=c99", "-O0", "-c"]
    objects = []
    for path in sources:
        if path.suffix in (".c", ".S"):
            objects.append(path.with_name(f"{path.name}.o"))
            subprocess.run([*gcc, path, "-o", objects[-1]], check=True)
    tell = [f"{emulated.tools[0]}nm", "--defined-only", "--extern-only", *objects]
    lines = subprocess.run(tell, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split()[2] for line in lines if len(line.split()) == 3]
    assert len(names) > 200 and [name for name in names if not name.startswith("net_")] == []


def test_two_models_in_one_program(tmp_path: Path) -> None:
    """One of them with the loader, and both with kernels that the other has too."""
    made = [
        Program(encode(SMALL["golden_state"]()), "one", ["ref"], True),
        Program(encode(models.small()), "other", ["ref"]),
    ]
    sources = [path for p in made for path in write(p, tmp_path / p.name)]
    main = put(tmp_path / "main.c", BOTH)
    places = [f"-I{tmp_path / p.name / 'src'}" for p in made]
    command = ["gcc", "-std=c99", "-O0", *STRICT, *SANITIZED, *places, *sources, main, "-o", tmp_path / "a"]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "a"], check=False).returncode == 0


def _said(made: Program, folder: Path, texts: list[str], show: str = "") -> list[str]:
    sources = write(made, folder)
    main = put(folder / "main.c", TEXTS.replace("SHOW", show))
    command = ["gcc", "-std=c99", "-O0", *STRICT, *SANITIZED, f"-I{folder / 'src'}", *sources, main, "-o", folder / "a"]
    subprocess.run(command, check=True)
    return subprocess.run([folder / "a", *texts], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("checked", (False, True))
def test_texts_become_inputs(checked: bool, tmp_path: Path) -> None:
    """Texts become inputs as mica.classify() writes them: begin, tokens, end, padding; a long text loses its end."""
    model = classes()
    assert model.tokens is not None
    texts = ["abcab", "", "ü?b", "abcabcabcabcabc"]
    rows = []
    for text in texts:
        tokens = to_tokens(model.tokens, text.encode())
        row = [2, *tokens[:4], 3]
        ends = [f"{t}/1/0" for t in row] + ["0/0/0"] * (6 - len(row))
        rows.append(" ".join([str(len(tokens)), *map(str, tokens), "1:", *ends]))
    assert _said(Program(encode(model), "net", ["ref"], checked), tmp_path, texts, SHOW) == rows


def test_tokens_of_a_language_model(tmp_path: Path) -> None:
    """-1 at a character without a token."""
    made = program("language", ["ref"])
    assert made.model.tokens is not None and "net_text(" not in made.files()["src/net.h"]
    pieces = [p.decode("utf-8", "ignore") for p in made.model.tokens.pieces]
    texts = ["".join(pieces[k] for k in at) for at in ((3, 4, 5), (5, 3), (4, 4, 3, 6))]
    found = [to_tokens(made.model.tokens, text.encode()) for text in texts]
    assert _said(made, tmp_path, [*texts, "\t\x01"]) == [*(" ".join(map(str, [len(t), *t])) for t in found), "-1"]

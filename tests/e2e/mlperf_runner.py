"""MLPerf Tiny's commands as its runner sends them, and the results that a golden vector gives."""

from __future__ import annotations

import numpy as np

from mica.c_program.folder import Program


def conversation(made: Program) -> str:
    """Return commands with the first golden vector as input, in pieces; a picture's bytes have no sign there."""
    sign = 128 if "SIGN 128" in made.mlperf() else 0
    x = bytes((int(q) + sign) & 255 for q in made.vectors[0].inputs[0].ravel())
    pieces = [f"db {x[i : i + 32].hex()}" for i in range(0, len(x), 32)]
    lines = ["name", "profile", "timestamp", f"db load {len(x)}", *pieces, "infer 2 1", "results", "what"]
    return "%".join(lines) + "%"


def expected(made: Program) -> str:
    """Return the numbers of the line of results, with three places."""
    t, y = made.model.tensors[made.model.outputs[0]], made.vectors[0].outputs[0].ravel()
    reals = [np.float32(int(q) - t.zero_point) * np.float32(t.scale) for q in y]
    thousandths = [int(abs(x) * np.float32(1000) + 0.5) for x in reals]
    signs = ["-" if x < 0 and n else "" for x, n in zip(reals, thousandths, strict=True)]
    return ",".join(f"{s}{n // 1000}.{n % 1000:03}" for s, n in zip(signs, thousandths, strict=True))

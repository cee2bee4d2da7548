"""Runs ONNX's node tests and writes down their outcomes: outcomes.tsv, and for people OPERATORS.md.

python tests/onnx_backend/make_table.py           to be run, and its results committed, whenever an operator is added
python tests/onnx_backend/make_table.py --table   prints the outcomes as a table for people, with the reasons
"""

from __future__ import annotations

import collections
import csv
import io
import sys
from pathlib import Path

import node_cases
import onnx
from node_cases import Outcome

from mica.ir.ops import DEFINED_BY_ONNX
from mica.passes.supported import ONNX_OPS

HERE = Path(__file__).resolve().parent
OUTCOMES = HERE / "outcomes.tsv"
OPERATORS = HERE.parents[1] / "host_tools" / "mica" / "passes" / "OPERATORS.md"
FIELDS = ("name", "op", "result", "adapted", "reason", "kernels")

HEAD = """# ONNX's node tests

Made by `make_table.py` from `outcomes.tsv`; the rules are in `node_cases.py`. Installed was onnx {version}.

Of {cases} cases {passed} pass, {rough} are rough, {failed} fail, {refused} are not run; {ops} operators of ONNX have a
case that passes. "Rough" are cases of operators spelled out as several nodes, each of which rounds to 8 bits: the
result is off by more than 1.5 steps, but by no more than 1.5 for each node. "(spelled out)" are ONNX's own expansions
of functions. "Adapted" are passing cases that had to be fed as exported models are: weights, axes and shapes as
constants, only the first output asked for, or float64 as float32.

| operator | cases | pass | of these adapted | rough | fail | not run |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

OPERATORS_HEAD = """# Which kernels an ONNX operator becomes

Made by `tests/onnx_backend/make_table.py`: the kernels in the packed models of ONNX's own node tests, of each
operator's passing cases. In a whole network there are fewer: an activation behind a convolution becomes its clamp, a
transpose meets another, one table stands for a chain of functions. Operators that only rename bytes need no kernel.
The cases feed both operands of a product as inputs. With constant weights, Gemm and MatMul are one fully_connected, and
a Conv with as many groups as channels is depthwise_conv2d. `(rough)`: no case is exact, because several kernels round.

| ONNX operator | kernels |
| --- | --- |
"""


def run(part: int = 1) -> list[Outcome]:
    """The cases of the installed onnx, by name: all, or one of so many and for each operator the first that passed."""
    known = {o.name: o.result for o in load(OUTCOMES.read_text(encoding="utf-8"))[1]}
    chosen, operators = [], set()
    for i, (name, case) in enumerate(sorted(node_cases.cases().items())):
        op = known.get(name, "new"), node_cases.operator(case)
        if i % part == 0 or op[0] == "new" or (op[0] == "pass" and op not in operators):
            chosen.append(case)
            operators.add(op)
    return [node_cases.run_case(case) for case in chosen]


def save(outcomes: list[Outcome], version: str) -> str:
    """Save the table as text, one line a case, below a line that names the version of onnx."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(("onnx", version))
    writer.writerow(FIELDS)
    writer.writerows([getattr(o, f) for f in FIELDS] for o in outcomes)
    return out.getvalue()


def load(text: str) -> tuple[str, list[Outcome]]:
    """The version of onnx, and the outcomes."""
    rows = list(csv.reader(io.StringIO(text), delimiter="\t"))
    return rows[0][1], [Outcome(**dict(zip(FIELDS, row, strict=True))) for row in rows[2:]]


def passing(outcomes: list[Outcome]) -> set[str]:
    """Operators with a case that passes."""
    return {o.op for o in outcomes if o.result == "pass"} - {node_cases.SPELLED_OUT}


def table(outcomes: list[Outcome], version: str) -> str:
    """The outcomes for people, as Markdown."""
    by_op: dict[str, list[Outcome]] = collections.defaultdict(list)
    for o in outcomes:
        by_op[o.op].append(o)
    total = collections.Counter(o.result for o in outcomes)
    lines = []
    for op, found in sorted(by_op.items(), key=lambda item: (item[0] == node_cases.SPELLED_OUT, item[0])):
        k = collections.Counter(o.result for o in found)
        adapted = sum(o.result == "pass" and bool(o.adapted) for o in found)
        counts = (len(found), k["pass"], adapted, k["rough"], k["fail"] + k["crash"], k["refused"])
        lines.append(f"| {op} | {' | '.join(str(n) if n else '' for n in counts)} |")
    text = HEAD.format(
        version=version,
        cases=len(outcomes),
        passed=total["pass"],
        rough=total["rough"],
        failed=total["fail"] + total["crash"],
        refused=total["refused"],
        ops=len(passing(outcomes)),
    )
    return text + "\n".join(lines) + "\n\n## Why cases are not run\n\n" + _reasons(by_op)


def operators(outcomes: list[Outcome]) -> str:
    """OPERATORS.md."""
    lines = []
    for op in sorted(ONNX_OPS | DEFINED_BY_ONNX):
        mine = [o for o in outcomes if o.op == op]
        known = [o for o in mine if o.result == "pass"] or [o for o in mine if o.result == "rough"]
        kernels = sorted({k for o in known for k in o.kernels.split()})
        text = ", ".join(kernels) or ("none" if known else "no official case that mica can take")
        rough = " (rough)" if known and known[0].result == "rough" else ""
        lines.append(f"| {op} | {text}{rough} |\n")
    return OPERATORS_HEAD + "".join(lines)


def _reasons(by_op: dict[str, list[Outcome]]) -> str:
    """Per operator and reason: the cases."""
    text = ""
    for op, found in sorted(by_op.items(), key=lambda item: (item[0] == node_cases.SPELLED_OUT, item[0])):
        by_reason: dict[str, list[str]] = collections.defaultdict(list)
        for o in found:
            if o.result in ("refused", "fail", "crash"):
                by_reason[o.reason].append(o.name.removeprefix("test_"))
        if by_reason:
            text += f"**{op}**\n\n"
            text += "".join(f"- {reason}: {', '.join(names)}\n" for reason, names in sorted(by_reason.items())) + "\n"
    return text


def main() -> None:
    if sys.argv[1:] == ["--table"]:
        version, known = load(OUTCOMES.read_text(encoding="utf-8"))
        print(table(known, version), end="")
        return
    outcomes = run()
    OUTCOMES.write_text(save(outcomes, onnx.__version__), encoding="utf-8")
    OPERATORS.write_text(operators(outcomes), encoding="utf-8")
    print(table(outcomes, onnx.__version__).split("\n\n")[2])


if __name__ == "__main__":
    main()

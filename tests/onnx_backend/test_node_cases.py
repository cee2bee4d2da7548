"""ONNX's own node tests: none crashes or fails, and each outcome is that of the committed table.

After a change that lets more of them pass: python tests/onnx_backend/make_table.py
"""

from __future__ import annotations

import json

import make_table
import node_cases
import onnx
import pytest
from node_cases import SPELLED_OUT, STEPS, Outcome
from targets import ALL

from mica.cli.main import main
from mica.importer.expand import ml
from mica.ir.ops import DEFINED_BY_ONNX
from mica.passes.supported import ONNX_OPS

AGAIN = "run tests/onnx_backend/make_table.py and commit what it writes"
LEAST_OPERATORS = 80
# Outcomes that another processor's sums may turn into each other: errors this near the limit, in steps.
NEAR = 0.15
# Supported operators none of whose official tests can pass, and why.
UNTESTABLE = {
    "Cast": "all of its cases are of NaN and infinity, or of types that mica refuses",
    "CastLike": "as Cast",
    "DynamicQuantizeLinear": "asks for the scale of each run; mica's are fixed when the model is packed",
    "LabelEncoder": "its cases encode strings, and no tensor of mica holds one",
    "Loop": "its cases take the number of runs as an input, or hold sequences",
    "Mod": "its cases take tensors of integers; mica takes integers that follow from a token or a place",
    "STFT": "its cases give the complex numbers themselves; mica takes what is made of their sizes",
}

# Cases whose numbers have more range than one scale of 8 bits: by the beginnings of their names, and why.
BEYOND_INT8 = {
    **dict.fromkeys(
        [f"test_qlinearmatmul_2D_{weights}_float{bits}" for weights in ("int8", "uint8") for bits in (16, 32)],
        "weights less their zero point take 9 bits: such columns have larger steps, and integers differ",
    ),
    "test_reduce_log_sum_exp_": "spelled out as the log of a sum of exp, in float64; ReduceLogSumExp itself passes",
    **dict.fromkeys(
        ["test_scan9_multi_state", "test_scan9_scalar", "test_scan9_sum"],
        "each sum has the scale of its own range, finer than the one of the numbers that it adds",
    ),
    "test_attention_4d_softcap_neginf_mask_poison": "huge numbers where the mask leaves out take the "
    "range of the values",
}


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return make_table.run(1 if ALL else 4)


@pytest.fixture(scope="module")
def recorded() -> tuple[str, list[Outcome]]:
    return make_table.load(make_table.OUTCOMES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["crash", "fail"])
def test_nothing_crashes_or_fails(outcomes: list[Outcome], kind: str) -> None:
    found = [o for o in outcomes if o.result == kind and not (kind == "fail" and _beyond_int8(o.name))]
    assert [f"{o.name}: {o.reason}" for o in found] == []


def _beyond_int8(name: str) -> bool:
    return any(name.startswith(begin) and (name.endswith(("_expanded", begin))) for begin in BEYOND_INT8)


def test_refusals_have_reasons(outcomes: list[Outcome]) -> None:
    assert [o.name for o in outcomes if o.result == "refused" and not o.reason] == []


def test_outcomes_are_the_recorded_ones(outcomes: list[Outcome], recorded: tuple[str, list[Outcome]]) -> None:
    """With another version of onnx, only the common cases count, and none may be worse."""
    version, known = recorded
    now = {o.name: o for o in outcomes}
    same = version == onnx.__version__
    if same:
        assert sorted(now if ALL else node_cases.cases()) == sorted(o.name for o in known), AGAIN
    changed = []
    for before in known:
        after = now.get(before.name)
        if after is None:
            continue
        if {before.result, after.result} == {"pass", "rough"} and abs(after.error - STEPS) < NEAR:
            continue
        if (before.result != after.result) if same else (before.result == "pass" != after.result):
            changed.append(f"{before.name}: was {before.result} {before.reason}, is {after.result} {after.reason}")
        elif same and before.kernels != after.kernels:
            changed.append(f"{before.name}: its kernels were {before.kernels}, are {after.kernels}")
        elif same and before.result == "refused" and before.reason != after.reason:
            changed.append(f"{before.name}: its reason was {before.reason}, is {after.reason}")
    assert not changed, AGAIN


def test_table_shows_the_recorded_outcomes(recorded: tuple[str, list[Outcome]]) -> None:
    _, known = recorded
    assert make_table.OPERATORS.read_text(encoding="utf-8") == make_table.operators(known), AGAIN


def test_supported_operators(outcomes: list[Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    """`mica info --ops` lists at least 80 operators: those that pass an official test, and none that passes none."""
    assert main(["info", "--ops", "--json"]) == 0
    ops = json.loads(capsys.readouterr().out)["ops"]
    listed = {op.removeprefix(f"{ml.DOMAIN}.") for op in ops if not op.startswith("com.microsoft.")}
    assert listed == ONNX_OPS | DEFINED_BY_ONNX | ml.FORMS.keys()
    passing = make_table.passing(outcomes)
    print(f"{len(passing & listed)} of {len(listed)} supported operators have a passing official test")
    assert len(passing & listed) >= LEAST_OPERATORS
    assert passing <= listed
    tested = {o.op for o in outcomes} - {SPELLED_OUT}
    assert sorted(listed & tested - passing) == sorted(UNTESTABLE)

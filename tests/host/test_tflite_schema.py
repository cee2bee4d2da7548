"""The numbers of the file format, compared with the code that LiteRT generates from its schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mica.cli.main import main
from mica.importer.tflite import schema
from mica.importer.tflite.operators import OPERATORS
from mica.importer.tflite.signal import KINDS


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("ai_edge_litert.schema_py_generated", reason="LiteRT is not installed")


def slots(theirs: Any, table: str) -> dict[str, int]:
    """Reader of a field -> its slot, from the generated class."""
    text = Path(theirs.__file__).read_text(encoding="utf-8")
    body = text.split(f"class {table}(object):", 1)[1].split("\nclass ", 1)[0]
    return {m[1]: (int(m[2]) - 4) // 2 for m in re.finditer(r"def (\w+)\(self.*\n.*self\._tab\.Offset\((\d+)\)", body)}


def camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


SAME = {"activation": "FusedActivationFunction", "diagonal": "DiagonalRecurrentTensors", "projection_clip": "ProjClip"}


def test_operators(theirs: Any) -> None:
    for code, name in schema.OPERATORS.items():
        assert getattr(theirs.BuiltinOperator, name) == code
    assert theirs.BuiltinOperator.CUSTOM == schema.CUSTOM
    assert theirs.BuiltinOptions2.StableHLOCompositeOptions == schema.COMPOSITE_OPTIONS
    assert theirs.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES == schema.PLACEHOLDER


def test_types(theirs: Any) -> None:
    for code, name in schema.TYPES.items():
        assert getattr(theirs.TensorType, name.upper()) == code


@pytest.mark.parametrize("options", schema.OPTIONS)
def test_options(theirs: Any, options: str) -> None:
    code, fields = schema.OPTIONS[options]
    assert getattr(theirs.BuiltinOptions, options) == code
    known = slots(theirs, options)
    for name, (slot, _, _) in fields.items():
        theirs_name = camel(name).replace("Dilation", "Dilation").replace("_", "")
        theirs_name = {"DilationW": "DilationWFactor", "DilationH": "DilationHFactor"}.get(theirs_name, theirs_name)
        assert known[SAME.get(name, theirs_name)] == slot, name


@pytest.mark.parametrize(
    ("table", "ours"),
    (
        ("Model", schema.MODEL),
        ("OperatorCode", schema.OPERATOR_CODE),
        ("SubGraph", schema.SUBGRAPH),
        ("Tensor", schema.TENSOR),
        ("QuantizationParameters", schema.QUANTIZATION),
        ("Operator", schema.OPERATOR),
        ("Buffer", schema.BUFFER),
        ("CallOnceOptions", schema.CALL_ONCE),
        ("VarHandleOptions", schema.VAR_HANDLE),
        ("StableHLOCompositeOptions", schema.COMPOSITE),
    ),
)
def test_tables(theirs: Any, table: str, ours: dict[str, int]) -> None:
    known = slots(theirs, table)
    assert {name: known[camel(name)] for name in ours} == ours


def test_activations(theirs: Any) -> None:
    for code, name in schema.ACTIVATIONS.items():
        assert getattr(theirs.ActivationFunctionType, name or "NONE") == code
    assert (theirs.Padding.SAME, theirs.Padding.VALID) == (schema.SAME, schema.VALID)


def test_info_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--ops", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tflite_ops"] == sorted([*OPERATORS, *KINDS, "STABLEHLO_COMPOSITE"])
    assert main(["info", "--ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [*found["ops"], "", "of TensorFlow Lite:", *found["tflite_ops"]]


def test_every_form_is_an_operator_of_the_format() -> None:
    assert set(OPERATORS) <= set(schema.OPERATORS.values())
    assert {f.options for f in OPERATORS.values() if f.options} == set(schema.OPTIONS)

"""Hostile requests of Open Inference Protocol v2: each refusal, in JSON and in binary,
is a 400 and gives its memory back; none is a 500."""

from __future__ import annotations

import ast
import copy
import http.client
import inspect
import json
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crowd
import numpy as np
import pytest
from targets import sampled
from test_board_reports import KINDS
from test_http_bounds import Running, running  # noqa: F401, a fixture

from mica.file import codec
from mica_fleet import door, inference_api
from mica_fleet.inference_api import LENGTH, ApiError

Asked = tuple[bytes, str | None]  # a body, and the header LENGTH


@pytest.fixture(scope="module")
def model(digits_file: Path) -> codec.ModelFile:
    return codec.decode(digits_file.read_bytes())


@pytest.fixture(scope="module")
def two(model: codec.ModelFile) -> codec.ModelFile:
    """The digits with a second input, `more`: one in binary may stand beside one in JSON."""
    found = copy.deepcopy(model)
    other = copy.deepcopy(found.tensors[found.inputs[0]])
    other.name = "more"
    found.inputs.append(len(found.tensors))
    found.tensors.append(other)
    return found


def asked(entries: list[Any], tail: bytes, rest: dict[str, Any] | None = None, length: str | None = None) -> Asked:
    head = json.dumps({"inputs": entries} | (rest or {})).encode()
    return head + tail, length if length is not None else str(len(head)) if tail else None


def refusals(model: codec.ModelFile) -> Iterator[tuple[bool, Asked]]:
    """(with bytes behind the JSON, request) that `parse` refuses: the first input is as it should be,
    the second is not."""
    t = model.tensors[model.inputs[0]]
    size = 64

    def entry(name: str, binary: bool, n: int = 1, datatype: str = "INT8", data: Any = None, **more: Any) -> Any:
        one = {"name": name, "shape": [n, *t.dims[1:]], "datatype": datatype}
        wide = 4 if datatype == "FP32" else 1
        there = {"parameters": {"binary_data_size": n * size * wide}} if binary else {"data": data or [1] * (n * size)}
        return one | there | more

    for binary in (False, True):
        good, tail = entry(t.name, binary), bytes(size) if binary else b""
        also = bytes(size) if binary else b""

        def of(second: Any, more: bytes | None = None, binary: bool = binary, **rest: Any) -> tuple[bool, Asked]:
            return binary, asked([good, second], tail + (also if more is None else more), **rest)  # noqa: B023

        nan = np.full(size, np.nan, "<f4").tobytes()
        yield of(entry("more", binary, datatype="FP32", data=[1e39] * size), nan if binary else None)
        yield of(entry("more", binary), also + b"x")  # a byte too many
        yield of(entry("more", False, data=[1] * 63))
        yield of(entry("more", False, data=[300] * size))
        yield of({"data": [1]})
        yield of(entry("who", binary))
        yield of(entry(t.name, binary))
        yield of(entry("more", binary, shape=[1, 7]))
        yield of(entry("more", binary, datatype="INT16"))
        yield of(entry("more", True, parameters={"binary_data_size": 5}))
        yield of(entry("more", binary, n=2), 2 * also)
        yield binary, asked([good], tail)
        yield of(entry("more", binary), rest={"id": 5})
        yield of(entry("more", binary), rest={"outputs": [{"name": "who"}]})
        yield of(entry("more", binary), rest={"outputs": [{"name": model.tensors[model.outputs[0]].name}] * 2})
        yield binary, asked([good], tail, length="99999")
        yield binary, (b"{" + tail, "1" if binary else None)
        yield binary, (b"[" + tail, None)
        yield binary, (b"[]" + tail, "2" if binary else None)
        yield binary, asked([good] + [{"data": [1]}] * 99, tail)


def test_each_refusal_in_json_and_in_binary_gives_its_memory_back(two: codec.ModelFile) -> None:
    bodies, hit = door.Bodies(1 << 20), {False: set[int](), True: set[int]()}
    for binary, (body, length) in refusals(two):
        with pytest.raises(ApiError) as e, bodies.body() as (found, add, whole):
            add(body)
            whole()
            inference_api.parse(two, found, length)
        assert e.value.status == 400 and not found and bodies._bytes == 0
        frames = [f.lineno for f in traceback.extract_tb(e.tb) if f.filename == inference_api.__file__]
        hit[binary].add(frames[-1] or 0)
    tree = ast.parse(inspect.getsource(inference_api))
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call))
    raised = {n.lineno: n.end_lineno for n in calls if getattr(n.exc.func, "id", "") == "_wrong"}
    for binary, lines in hit.items():
        missed = [a for a, b in raised.items() if not any(a <= line <= (b or a) for line in lines)]
        assert not missed, f"refusals that no request met, binary {binary}: lines {missed} of inference_api.py"


def hostile(model: codec.ModelFile, n: int) -> Iterator[Asked]:
    """n requests: a good one with a field of another kind, other bytes behind it, a wrong length, or bytes changed."""
    chance, t = random.Random(50), model.tensors[model.inputs[0]]
    values = np.random.default_rng(0).integers(-100, 100, 128).astype(np.int8)
    for _ in range(n):
        samples, datatype, binary = chance.randint(1, 2), chance.choice(("FP32", "INT8")), chance.random() < 0.5
        x = values[: samples * 64].astype("<f4" if datatype == "FP32" else np.int8)
        entry: dict[str, Any] = {"name": t.name, "shape": [samples, *t.dims[1:]], "datatype": datatype}
        entry |= {"parameters": {"binary_data_size": x.nbytes}} if binary else {"data": x.tolist()}
        tail = x.tobytes() if binary else b""
        request: dict[str, Any] = {"id": "1", "inputs": [entry], "outputs": [{"name": "KIND"}], "parameters": {}}
        request["outputs"] = [{"name": model.tensors[model.outputs[0]].name, "parameters": {"binary_data": binary}}]
        tables = [request, entry, request["outputs"][0], entry.get("parameters", request)]
        if chance.random() < 0.7:
            place = chance.choice(tables)
            place[chance.choice(list(place) or ["x"])] = "KIND"
        head = json.dumps(request).replace('"KIND"', chance.choice(KINDS)).encode()
        if chance.random() < 0.3:
            tail = chance.choice((b"", tail + b"x", tail[1:], np.full(64 * samples, np.nan, "<f4").tobytes()))
        body = bytearray(head + tail)
        if chance.random() < 0.2:
            body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        length = str(len(head)) if binary else None
        if chance.random() < 0.15:
            length = chance.choice(
                ("0", "1", "-1", "1e3", "99999999999999999", "x", "", str(len(body)), str(len(head) - 1))
            )
        yield bytes(body), length


def test_no_request_gives_a_500(
    model: codec.ModelFile,
    running: Callable[..., Running],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8,000 with scripts/test --all."""
    kept: list[door.Bodies] = []
    begin = door.Bodies.__init__
    monkeypatch.setattr(door.Bodies, "__init__", lambda self, most: (begin(self, most), kept.append(self))[0])
    r = running()
    link = http.client.HTTPConnection("127.0.0.1", r.port, timeout=60)
    statuses: dict[int, int] = {}
    for body, length in hostile(model, n := sampled(8000, 500)):
        link.request("POST", crowd.INFER, body, {LENGTH: length} if length is not None else {})
        answer = link.getresponse()
        said = answer.read()
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert answer.status in (200, 400, 413), (answer.status, said, body, length)
        assert answer.status == 200 or set(json.loads(said)) == {"error"}
    link.close()
    assert statuses[200] > n // 20 and statuses[400] > n // 3, statuses
    assert [b._bytes for b in kept] == [0] and not r.said

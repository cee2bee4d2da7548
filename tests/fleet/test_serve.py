"""`mica fleet serve`: answers to clients that are not ours, and their errors if there is no answer."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEMO, Join
from free_ports import free_port
from outages import SLOW

from mica.cli.main import main
from mica.errors import MicaError
from mica.file import codec
from mica.link import child
from mica.run.host import HostRunner
from mica_fleet.inference_api import LENGTH, ApiError, answer, metadata, parse
from mica_fleet.metrics import Metrics
from mica_fleet.server import Server
from mica_fleet.site import Site

TOKEN = "a-token-of-the-tests"


def wait_until(what: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


class Client:
    """Plain HTTP."""

    def __init__(self, port: int, **headers: str) -> None:
        self.port, self.headers = port, headers

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body)
        c.request(method, path, data, self.headers | {k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        content = r.read()
        c.close()
        is_json = r.headers.get("Content-Type", "").startswith("application/json")
        return r.status, json.loads(content) if is_json else content, r.headers


@pytest.fixture(scope="module")
def digits() -> dict[str, np.ndarray]:
    with np.load(DEMO / "digits_test.npz") as f:
        return dict(f)


Serve = Callable[..., Client]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """serve("plant.toml", "digits.mica", ...) starts a server; a client of it."""
    pytest.importorskip("starlette", reason="the Python package starlette is not installed")
    pytest.importorskip("uvicorn", reason="the Python package uvicorn is not installed")
    running: list[subprocess.Popen[bytes]] = []

    def start(fleet: str, *words: str, **headers: str) -> Client:
        command = [sys.executable, "-m", "mica", "fleet", "serve", fleet, *words, "--http", "127.0.0.1:0", "--json"]
        process = child.start(command, stdout=subprocess.PIPE)
        running.append(process)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] not in (b"}\n", b""):
            lines.append(process.stdout.readline())
        said = json.loads(b"".join(lines))
        client = Client(int(said["url"].rpartition(":")[2]), **headers)
        client.process = process  # type: ignore[attr-defined]
        return client

    yield start
    for process in running:
        process.send_signal(signal.SIGINT)
        process.wait(60)  # a request that waits for a board holds it up for 25 s
        child.stop(process)


def x_of(digits: dict[str, np.ndarray], n: int) -> dict[str, Any]:
    x = digits["x"][:n].astype(np.float32).reshape(n, 1, 8, 8)
    return {"shape": list(x.shape), "datatype": "FP32", "data": x.reshape(-1).tolist()}


def test_a_fleet_behind_a_broker(
    fleet: Site, join: Join, serve: Serve, digits_file: Path, digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    data = digits_file.read_bytes()
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    ask = serve(str(fleet.path), str(digits_file), "--token-file", str(token), Authorization=f"Bearer {TOKEN}")
    anybody = Client(ask.port)
    assert anybody("GET", "/v2/health/live")[:2] == (200, {"live": True})
    for path in ("/v2", "/metrics", "/v2/models/digits"):
        status, said, headers = anybody("GET", path)
        assert status == 401 and "token" in said["error"] and headers["WWW-Authenticate"] == "Bearer"
    assert Client(ask.port, Authorization="Bearer wrong")("GET", "/v2")[0] == 401
    # nobody is there yet
    with HostRunner(data) as host:
        name = host.model.tensors[host.model.inputs[0]].name
        expected = host.predict(digits["x"][:40].astype(np.float32).reshape(-1, 1, 8, 8))
        q = host.quantise([digits["x"][0].astype(np.float32).reshape(1, 1, 8, 8)])[0]
        raw = host.run([[q]])[0][0]
    one = {"inputs": [{"name": name} | x_of(digits, 1)]}
    status, said, _ = ask("POST", "/v2/models/digits/infer", one)
    assert (status, said) == (503, {"error": "no board that is there has this model"})
    assert ask("GET", "/v2/health/ready")[0] == ask("GET", "/v2/models/digits/ready")[0] == 400
    members = [join(f"b{i}", program=SLOW) for i in (1, 2, 3)]
    wait_until(lambda: ask("GET", "/v2/models/digits/ready")[0] == 200)
    # one, and many at once, in numbers
    assert ask("GET", "/v2/models")[:2] == (200, {"models": [{"name": "digits"}]})
    about = ask("GET", "/v2/models/digits")[1]
    assert about["inputs"][0] | {"parameters": 0} == {
        "name": name,
        "datatype": "FP32",
        "shape": [-1, 1, 8, 8],
        "parameters": 0,
    }
    status, said, _ = ask("POST", "/v2/models/digits/versions/1/infer", one | {"id": "seven"})
    assert status == 200 and said["id"] == "seven" and said["model_name"] == "digits"
    output = said["outputs"][0]
    assert output["name"] == about["outputs"][0]["name"] and output["shape"] == [1, 10]
    assert np.array_equal(np.float32(output["data"]), expected[0].reshape(-1))
    many = {"inputs": [{"name": name} | x_of(digits, 40)]}
    status, said, _ = ask("POST", "/v2/models/digits/infer", many)
    assert np.array_equal(np.float32(said["outputs"][0]["data"]).reshape(40, 10), expected.reshape(40, 10))
    # in binary, and in integers
    head = {
        "inputs": [{"name": name, "shape": [1, 1, 8, 8], "datatype": "INT8", "parameters": {"binary_data_size": 64}}]
    }
    text = json.dumps(head | {"parameters": {"binary_data_output": True}}).encode()
    status, content, headers = ask("POST", "/v2/models/digits/infer", text + q.tobytes(), **{LENGTH: str(len(text))})
    n = int(headers[LENGTH])
    described = json.loads(content[:n])["outputs"][0]
    assert (described["datatype"], described["parameters"]) == ("INT8", {"binary_data_size": 10})
    assert content[n:] == raw.tobytes()
    # boards die while many ask
    over = threading.Event()

    def killer() -> None:
        for member in members * 2:
            over.wait(0.4)
            if member.process is not None and member.process.poll() is None:
                member.process.kill()

    thread = threading.Thread(target=killer)
    thread.start()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: ask("POST", "/v2/models/digits/infer", many if i % 9 == 8 else one), range(90)))
    thread.join()
    assert {status for status, _, _ in found} <= {200, 503}
    assert sum(status == 200 for status, _, _ in found) >= 60
    for status, said, _ in found:
        if status == 200:
            got = np.float32(said["outputs"][0]["data"]).reshape(-1, 10)
            assert np.array_equal(got, expected[: len(got)].reshape(-1, 10))
    check_metrics(ask("GET", "/metrics")[1].decode(), answered=sum(n for n in [1, 40, 1]))


def check_metrics(text: str, answered: int) -> None:
    parser = pytest.importorskip(
        "prometheus_client.parser", reason="the Python package prometheus-client is not installed"
    )
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    assert families["mica_requests"].type == "counter" and families["mica_request_seconds"].type == "histogram"
    rows = families["mica_requests"].samples
    ok = sum(s.value for s in rows if s.labels["status"] == "ok" and s.labels["board"] in ("b1", "b2", "b3"))
    assert ok > answered and {s.labels["model"] for s in rows} == {"digits"}
    assert any(s.labels["status"] == "failed" for s in rows), "those without a board"
    buckets = [s for s in families["mica_request_seconds"].samples if s.name.endswith("_bucket")]
    count = next(s for s in families["mica_request_seconds"].samples if s.name.endswith("_count"))
    assert buckets[-1].labels["le"] == "+Inf" and buckets[-1].value == count.value == sum(s.value for s in rows)
    assert {s.labels["board"] for s in families["mica_board_up"].samples} == {"b1", "b2", "b3"}
    assert families["mica_boards_lost"].samples[0].value >= 1
    assert families["mica_audit_failures"].samples[0].value == 0


def test_a_client_that_is_not_ours(
    serve: Serve, digits_file: Path, digits: dict[str, np.ndarray], tmp_path: Path
) -> None:
    triton = pytest.importorskip(
        "tritonclient.http",
        reason="the Python package tritonclient[http] is not installed (it brings gevent and aiohttp)",
    )
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    ask = serve("fleet:host", str(digits_file), "--token-file", str(token))
    x = digits["x"][:5].astype(np.float32).reshape(5, 1, 8, 8)
    with HostRunner(digits_file.read_bytes()) as host:
        expected = host.predict(x).reshape(5, 10)
    client = triton.InferenceServerClient(f"127.0.0.1:{ask.port}")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert client.is_server_live()
    wait_until(lambda: client.is_server_ready() and client.is_model_ready("digits", headers=headers))
    assert client.get_server_metadata(headers=headers)["name"] == "mica"
    about = client.get_model_metadata("digits", headers=headers)
    name, output = about["inputs"][0]["name"], about["outputs"][0]["name"]
    for binary in (False, True):
        given = triton.InferInput(name, list(x.shape), "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        desired = triton.InferRequestedOutput(output, binary_data=binary)
        result = client.infer("digits", [given], outputs=[desired], request_id="x", headers=headers)
        assert np.array_equal(result.as_numpy(output), expected) and result.get_response()["id"] == "x"
        assert np.array_equal(client.infer("digits", [given], headers=headers).as_numpy(output), expected)
    with pytest.raises(triton.InferenceServerException, match="no model 'x'"):
        client.infer("x", [given], headers=headers)
    with pytest.raises(triton.InferenceServerException, match="a token is needed"):
        client.infer("digits", [given])
    client.close()


def test_boards_without_a_broker_and_errors(serve: Serve, digits_file: Path, digits: dict[str, np.ndarray]) -> None:
    ask = serve("fleet:UNIX*2", str(digits_file))
    wait_until(lambda: ask("GET", "/v2/health/ready")[0] == 200)
    about = ask("GET", "/v2/models/digits")[1]
    good = {"name": about["inputs"][0]["name"]} | x_of(digits, 1)
    infer = "/v2/models/digits/infer"
    assert ask("POST", infer, {"inputs": [good]})[0] == 200
    bad: list[tuple[int, str, tuple[Any, ...]]] = [
        (404, "no model 'x'", ("POST", "/v2/models/x/infer", {})),
        (404, "no model", ("GET", "/v2/models/digits/versions/2")),
        (404, "no such path", ("GET", "/v3")),
        (405, "", ("GET", infer)),
        (400, "no JSON", ("POST", infer, b"{")),
        (400, "no JSON", ("POST", infer, b"[" * 100_000)),
        (400, "no JSON", ("POST", infer, b"\xff")),
        (400, 'no list "inputs"', ("POST", infer, [])),
        (400, "no name", ("POST", infer, {"inputs": [3]})),
        (400, "missing", ("POST", infer, {"inputs": []})),
        (400, "none of", ("POST", infer, {"inputs": [good | {"name": "y"}]})),
        (400, "twice", ("POST", infer, {"inputs": [good, good]})),
        (400, "shape", ("POST", infer, {"inputs": [good | {"shape": [1, 64]}]})),
        (400, "shape", ("POST", infer, {"inputs": [good | {"shape": [0, 1, 8, 8]}]})),
        (400, "shape", ("POST", infer, {"inputs": [good | {"shape": [True, 1, 8, 8]}]})),
        (400, "shape", ("POST", infer, {"inputs": [good | {"shape": [2000, 1, 8, 8]}]})),
        (400, "datatype", ("POST", infer, {"inputs": [good | {"datatype": "BYTES"}]})),
        (400, "64 numbers", ("POST", infer, {"inputs": [good | {"data": [1]}]})),
        (400, "64 numbers", ("POST", infer, {"inputs": [good | {"data": [[1], [2, 3]]}]})),
        (400, "64 numbers", ("POST", infer, {"inputs": [good | {"data": {"a": 1}}]})),
        (400, "finite", ("POST", infer, {"inputs": [good | {"data": [float("nan")] * 64}]})),
        (400, "finite", ("POST", infer, {"inputs": [good | {"data": [1e300] * 64}]})),
        (400, "whole numbers", ("POST", infer, {"inputs": [good | {"datatype": "INT8", "data": [200] * 64}]})),
        (400, "binary_data_size", ("POST", infer, {"inputs": [good | {"parameters": {"binary_data_size": 256}}]})),
        (400, "outputs", ("POST", infer, {"inputs": [good], "outputs": [{"name": "z"}]})),
        (400, "id", ("POST", infer, {"inputs": [good], "id": 3})),
    ]
    for status, text, call in bad:
        found = ask(*call)
        assert found[0] == status and text in found[1]["error"], (call[:2], found[:2])
    body = json.dumps({"inputs": [good]}).encode()
    assert ask("POST", infer, body, **{LENGTH: "x"})[0] == 400
    assert ask("POST", infer, body, **{LENGTH: "999999"})[0] == 400
    assert ask("POST", infer, body + b"!", **{LENGTH: str(len(body))})[0] == 400
    assert ask("POST", infer, body, Content_Encoding="gzip")[0] == 415
    assert ask("GET", "/v2", Host="evil.example")[0] == 400, "a page in a browser may have any name for this machine"
    assert ask("POST", infer, {"inputs": [good]})[0] == 200


def test_what_is_too_large_and_what_takes_too_long(fleet: Site, join: Join, serve: Serve, digits_file: Path) -> None:
    join("b2", program="import json, mica_fleet\nmica_fleet.LARGEST = 10\nmica_fleet.run()")
    ask = serve(str(fleet.path), str(digits_file), "--timeout", "3s")
    wait_until(lambda: ask("GET", "/v2/health/ready")[0] == 200)
    name = ask("GET", "/v2/models/digits")[1]["inputs"][0]["name"]
    one = {"inputs": [{"name": name, "shape": [1, 1, 8, 8], "datatype": "INT8", "data": [0] * 64}]}
    status, said, _ = ask("POST", "/v2/models/digits/infer", one)
    assert (status, said) == (413, {"error": "a sample has 64 bytes; a board takes 10"})
    member = join("b1")
    wait_until(lambda: ask("POST", "/v2/models/digits/infer", one)[0] == 200)
    for _ in range(10):
        assert ask("POST", "/v2/models/digits/infer", one)[0] == 200, "b2 is not asked"
    assert member.process is not None
    member.process.send_signal(signal.SIGSTOP)
    try:
        status, said, _ = ask("POST", "/v2/models/digits/infer", one)
    finally:
        member.process.send_signal(signal.SIGCONT)
    assert (status, said) == (504, {"error": "no answer within 3 s"})
    wait_until(lambda: ask("POST", "/v2/models/digits/infer", one)[0] == 200)


# A board that tells which inputs it is at.
TELLS = """
import json, mica_fleet
from binascii import crc32
class Telling(mica_fleet.Agent):
    def compute(self, model, inputs):
        print("mica:", crc32(inputs))
        return super().compute(model, inputs)
with open("fleet.json") as f:
    Telling(json.load(f)).work()
"""


def test_a_model_in_parts_is_served_as_one(
    fleet: Site, join: Join, serve: Serve, digits_file: Path, tmp_path: Path, digits: dict[str, np.ndarray]
) -> None:
    assert main(["fleet", "cut", str(digits_file), "--parts", "2", "-o", str(tmp_path / "d")]) == 0
    parts = [(tmp_path / f"d.{k}of2.mica").read_bytes() for k in (1, 2)]
    said_of: list[str] = []
    join("b1", models={"1.mica": parts[0]}, program=TELLS, said=said_of)
    ask = serve(str(fleet.path), str(tmp_path / "d.1of2.mica"))
    infer = "/v2/models/d/infer"
    with HostRunner(digits_file.read_bytes()) as host:
        x = digits["x"][:120].astype(np.float32).reshape(-1, 1, 8, 8)
        name, right = host.model.tensors[host.model.inputs[0]].name, host.predict(x)
        told = [f"b1: {zlib.crc32(host.quantise([x[20 * k]])[0].tobytes())}" for k in range(6)]
    about = ask("GET", "/v2/models/d")[1]
    assert about["inputs"][0]["name"] == name and len(about["outputs"]) == 1
    body = {"inputs": [{"name": name} | x_of(digits, 20)]}
    wait_until(lambda: "part 2 of 2" in ask("POST", infer, body)[1]["error"])
    assert ask("POST", infer, body)[:2] == (503, {"error": "no board that is there has part 2 of 2"})
    member = join("b2", models={"2.mica": parts[1]}, program=SLOW)
    wait_until(lambda: ask("GET", "/v2/models/d/ready")[0] == 200)
    with ThreadPoolExecutor(6) as pool:
        calls = []
        for k in range(6):
            data = {"data": x[20 * k : 20 * k + 20].reshape(-1).tolist()}
            calls.append(pool.submit(ask, "POST", infer, {"inputs": [body["inputs"][0] | data]}))
        wait_until(lambda: set(told) <= set(said_of))  # all are under way
        assert member.process is not None
        member.process.kill()  # it comes again; what was between the parts goes on
        for k, call in enumerate(calls):
            status, said, _ = call.result()
            assert status == 200
            found = np.float32(said["outputs"][0]["data"]).reshape(20, *right.shape[1:])
            assert np.array_equal(found, right[20 * k : 20 * k + 20])


def test_where_it_cannot_serve(digits_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn", reason="the Python package uvicorn is not installed")
    pytest.importorskip("starlette", reason="the Python package starlette is not installed")

    def fails(*words: str) -> str:
        assert main(["fleet", "serve", *words]) == 1
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert said.startswith("mica: error: ") and "bug" not in said
        return said

    digits = str(digits_file)
    short = tmp_path / "token"
    short.write_text("short")
    assert "0.0.0.0 can be reached from other machines" in fails("fleet:host", digits, "--http", "0.0.0.0:0")
    assert "no token" in fails("fleet:host", digits, "--token-file", str(short))
    assert "cannot be read" in fails("fleet:host", digits, "--token-file", str(tmp_path / "none"))
    for option, value in (("--http", "x"), ("--timeout", "3"), ("--audit", "200%"), ("--http", "127.0.0.1:70000")):
        assert value.split(":")[-1] in fails("fleet:host", digits, option, value)
    assert "two models are called digits" in fails("fleet:host", digits, digits)
    copy = tmp_path / "other.mica"
    copy.write_bytes(digits_file.read_bytes())
    assert "2 models" in fails("fleet:host", digits, str(copy))
    port = free_port()
    server = Server("127.0.0.1", port, None)
    assert "cannot be listened at" in fails("fleet:host", digits, "--http", f"127.0.0.1:{port}")
    server.close()
    with pytest.raises(MicaError, match="other machines"):
        Server("::", 0, None)


def test_labels_are_quoted() -> None:
    parser = pytest.importorskip(
        "prometheus_client.parser", reason="the Python package prometheus-client is not installed"
    )
    metrics = Metrics()
    metrics.request('a"\\\nb', "", "ok", 0.2)
    family = next(parser.text_string_to_metric_families(metrics.text({}, {})).__iter__())
    assert family.samples[0].labels == {"model": 'a"\\\nb', "board": "", "status": "ok"}


def test_random_bodies_are_refused_in_one_line(digits_file: Path) -> None:
    """5,000 damaged requests: an answer or an ApiError, never anything else."""
    model = codec.decode(digits_file.read_bytes())
    name = metadata("digits", model)["inputs"][0]["name"]
    good = json.dumps(
        {"inputs": [{"name": name, "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}], "id": "1"}
    ).encode()
    chance = np.random.default_rng(0)
    refused = 0
    for _ in range(5000):
        body = bytearray(good)
        for _ in range(int(chance.integers(1, 4))):
            at = int(chance.integers(len(body)))
            body[at : at + int(chance.integers(3))] = chance.bytes(int(chance.integers(3)))
        length = None if chance.random() < 0.7 else str(int(chance.integers(2 * len(body))))
        try:
            call = parse(model, bytes(body), length)
            answer("digits", model, call, [bytes(10)] * len(call.samples))
        except ApiError as e:
            refused += 1
            assert e.status == 400 and "\n" not in str(e)
    assert refused > 2000

"""A client of mica's JetStream work queue, for tests and for tests/fleet/bench."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.run.host import HostRunner


@dataclass(frozen=True)
class Said:
    status: int
    body: bytes


def requests(data: bytes, n: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """n random samples of a model: ID -> body, and ID -> the bytes of the host's first output."""
    rng = np.random.default_rng(0)
    bodies, right = {}, {}
    with HostRunner(data) as host:
        t = host.model.tensors[host.model.inputs[0]]
        for k in range(n):
            x = rng.integers(-128, 128, t.dims).astype(np.int8)
            one = {"name": t.name, "shape": list(t.dims), "datatype": "INT8", "data": x.reshape(-1).tolist()}
            bodies[f"r{k}"] = json.dumps({"inputs": [one]}).encode()
            right[f"r{k}"] = host.run([[x]])[0][0].tobytes()
    return bodies, right


def outputs(body: bytes) -> bytes:
    """The first output of an answer in integers."""
    return np.array(json.loads(body)["outputs"][0]["data"], np.int8).tobytes()


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    import nats

    async def quiet(e: Exception) -> None:
        pass

    nc = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.2, error_cb=quiet)
    try:
        yield nc.jetstream(timeout=2)
    finally:
        await nc.close()


async def _surely(make: Any) -> Any:
    """Return the result of a call, which is repeated while the server is away."""
    import nats.errors

    for _ in range(100):
        with contextlib.suppress(nats.errors.Error, OSError):
            return await make()
        await asyncio.sleep(0.2)
    raise TimeoutError("the NATS server does not come back")


async def ask(js: Any, stream: str, model: str, bodies: Mapping[str, bytes]) -> None:
    """Stored, each of them."""
    for key, body in bodies.items():
        headers = {"Nats-Msg-Id": key}
        await _surely(lambda body=body, headers=headers: js.publish(f"{stream}.ask.{model}", body, headers=headers))


async def until(js: Any, stream: str, n: int, seconds: float = 60.0) -> None:
    """Wait until n requests have an answer."""
    found = -1
    for _ in range(int(seconds / 0.05)):
        found = (await _surely(lambda: js.stream_info(f"{stream}-answers"))).state.messages
        if found >= n:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{found} of {n} answers after {seconds:g} s")


async def acknowledged(js: Any, stream: str, model: str) -> None:
    """Every request. (What a server that was killed still has of them in its files is a matter of the server's.)"""
    for _ in range(600):
        c = await _surely(lambda: js.consumer_info(stream, model))
        if not c.num_pending and not c.num_ack_pending:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{c.num_pending} wait, {c.num_ack_pending} are with gateways")


async def waiting(js: Any, stream: str, n: int) -> None:
    """Wait until exactly n requests are in the stream: an acknowledged one leaves it a moment later."""
    found = -1
    for _ in range(100):
        found = (await _surely(lambda: js.stream_info(stream))).state.messages
        if found == n:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{found} requests wait, not {n}")


async def answer(js: Any, stream: str, key: str) -> Said:
    message = await _surely(lambda: js.get_last_msg(f"{stream}-answers", f"{stream}.answer.{key}"))
    return Said(int(message.headers["Mica-Status"]), message.data)


async def answers(js: Any, stream: str, keys: Mapping[str, object]) -> dict[str, Said]:
    return {key: await answer(js, stream, key) for key in keys}

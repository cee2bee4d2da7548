"""A request's body to boards, and what they answer to a body: what the HTTP server and the queue have in common."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mica_fleet import inference_api
from mica_fleet.inference_api import ApiError
from mica_fleet.metrics import Metrics
from mica_fleet.service import GivenUp, Service, TooLarge, Unavailable

T = TypeVar("T")

_SMALL = 1 << 16  # bytes of a body or an answer that are no burden to the event loop
_APART = ThreadPoolExecutor(1, thread_name_prefix="large bodies")  # one at a time, so that memory stays bounded


async def infer_body(
    service: Service,
    metrics: Metrics,
    name: str,
    body: bytes | bytearray,
    length: str | None,
    timeout: float,
    client: str = "",
) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the answer. length: of the header inference_api.LENGTH. client: has a share of the boards.
    Raises ApiError."""
    model = service.models[name]
    call = await _apart(len(body), lambda: inference_api.parse(model, body, length))
    answers = await ask(service, metrics, name, call.samples, timeout, client)
    size = len(answers) * inference_api.output_bytes(model)
    return await _apart(size, lambda: inference_api.answer(name, model, call, answers))


async def _apart(size: int, work: Callable[[], T]) -> T:
    """Return the result of work(), which runs in a thread if `size`, in bytes, is large."""
    if size <= _SMALL:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_APART, work)


async def ask(
    service: Service, metrics: Metrics, name: str, samples: Sequence[bytes], timeout: float, client: str = ""
) -> list[bytes]:
    """Ask the boards; return their answers. Raises ApiError."""
    begun = time.monotonic()
    future = service.submit(name, samples, client)
    status = "failed"
    try:
        async with asyncio.timeout(timeout):
            results = await asyncio.wrap_future(future)
        status = "ok"
    except TimeoutError:
        status = "timed out"
        raise ApiError(504, f"no answer within {timeout:g} s") from None
    except Unavailable as e:
        raise ApiError(503, str(e)) from None
    except TooLarge as e:
        raise ApiError(413, str(e)) from None
    except GivenUp as e:
        raise ApiError(500, str(e)) from None
    finally:
        if not future.done():
            service.abandon(future)
        del future  # an error of it has this frame, which would keep the samples until the next collection
        seconds = time.monotonic() - begun
        if status != "ok":
            metrics.request(name, "", status, seconds)
    for result in results:
        metrics.request(name, result.board, "ok", seconds)
    return [result.outputs for result in results]

"""A request's body to boards, and what they answer to a body: what the HTTP server and the queue have in common."""

from __future__ import annotations

import asyncio
import time

from mica.fleet import inference_api
from mica.fleet.inference_api import ApiError
from mica.fleet.metrics import Metrics
from mica.fleet.service import GivenUp, Result, Service, TooLarge, Unavailable


async def infer_body(
    service: Service, metrics: Metrics, name: str, body: bytes, length: str | None, timeout: float
) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the answer. length: of the header inference_api.LENGTH. Raises ApiError."""
    model = service.models[name]
    call = inference_api.parse(model, body, length)
    answers = await ask(service, metrics, name, call.samples, timeout)
    return inference_api.answer(name, model, call, answers)


async def ask(service: Service, metrics: Metrics, name: str, samples: list[bytes], timeout: float) -> list[bytes]:
    """What the boards answer. Raises ApiError."""
    begun = time.monotonic()
    futures = [service.submit(name, sample) for sample in samples]
    waiting = [asyncio.wrap_future(f) for f in futures]
    results: list[Result | BaseException] = []
    try:
        async with asyncio.timeout(timeout):
            results = await asyncio.gather(*waiting, return_exceptions=True)
    except TimeoutError:
        metrics.request(name, "", "timed out", time.monotonic() - begun)
        raise ApiError(504, f"no answer within {timeout:g} s") from None
    finally:
        for future in futures:
            if not future.done():
                service.abandon(future)
    seconds = time.monotonic() - begun
    answers: list[bytes] = []
    problem: BaseException | None = None
    for result in results:
        if isinstance(result, Result):
            metrics.request(name, result.board, "ok", seconds)
            answers.append(result.outputs)
        else:
            metrics.request(name, "", "failed", seconds)
            problem = result
    match problem:
        case None:
            return answers
        case Unavailable():
            raise ApiError(503, str(problem))
        case TooLarge():
            raise ApiError(413, str(problem))
        case GivenUp():
            raise ApiError(500, str(problem))
        case _:
            raise problem

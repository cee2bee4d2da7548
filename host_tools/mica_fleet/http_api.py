"""Open Inference Protocol v2 and /metrics over HTTP, with starlette.

    GET  /v2, /v2/health/live, /v2/health/ready, /v2/models, /v2/models/M, /v2/models/M/ready     (M: also M/versions/1)
    POST /v2/models/M/infer                                                           GET /metrics

An error is {"error": one line}: 400 a bad request, 401 no token, 404 no such model, 413 too large, 415 compressed,
500 the boards gave it up, 503 no board can answer now, 504 none has in time.
A token is asked for everything but health. door.py has the bounds of what a client may take.
"""

import asyncio
import hmac
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mica import __version__
from mica_fleet import door, inference_api
from mica_fleet.ask import infer_body
from mica_fleet.inference_api import ApiError
from mica_fleet.metrics import Metrics
from mica_fleet.service import Service

T = TypeVar("T")
_Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_BODIES = 48 << 20  # bytes of all bodies that are under way


def application(service: Service, metrics: Metrics, token: str | None, timeout: float, loopback: bool) -> Starlette:
    """The ASGI application. loopback: only this machine's names are taken for a host's,
    so that no web page can ask through a browser."""
    api = _Api(service, metrics, timeout)
    routes = [
        Route("/v2", _guarded(_about, token)),
        Route("/v2/models", _guarded(api.models, token)),
        Route("/v2/health/live", _guarded(_live, None)),
        Route("/v2/health/ready", _guarded(api.ready, None)),
        Route("/metrics", _guarded(api.numbers, token)),
    ]
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(path, _guarded(api.model, token)),
            Route(path + "/ready", _guarded(api.model_ready, token)),
            Route(path + "/infer", _guarded(api.infer, token), methods=["POST"]),
        ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]", "::1", "["])]
    handlers: Any = {404: _not_found, 405: _not_found, Exception: _bug}
    return Starlette(routes=routes, middleware=middleware if loopback else [], exception_handlers=handlers)


class _Api:
    """Handlers of the paths that ask about models."""

    def __init__(self, service: Service, metrics: Metrics, timeout: float) -> None:
        self._service = service
        self._metrics = metrics
        self._timeout = timeout
        self._bodies = door.Bodies(_BODIES)

    def _named(self, request: Request) -> str:
        name: str = request.path_params["name"]
        models = self._service.models
        if name not in models or request.path_params.get("version", "1") != "1":
            raise ApiError(404, f"no model {name[:64]!r} is served here; there is {', '.join(models)}")
        return name

    async def ready(self, request: Request) -> Response:
        is_ready = all(self._service.is_ready(name) for name in self._service.models)
        return _said({"ready": is_ready}, 200 if is_ready else 400)

    async def models(self, request: Request) -> Response:
        return _said({"models": [{"name": name} for name in self._service.models]})

    async def model(self, request: Request) -> Response:
        name = self._named(request)
        return _said(inference_api.metadata(name, self._service.models[name]))

    async def model_ready(self, request: Request) -> Response:
        name = self._named(request)
        is_ready = self._service.is_ready(name)
        return _said({"name": name, "ready": is_ready}, 200 if is_ready else 400)

    async def infer(self, request: Request) -> Response:
        name = self._named(request)
        if request.headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "the body is compressed")
        length = request.headers.get(inference_api.LENGTH)
        client = request.client.host if request.client else ""
        with self._bodies.body() as (body, add, whole):
            await _read(request, inference_api.largest_body(self._service.models[name]), add)
            whole()
            work = infer_body(self._service, self._metrics, name, body, length, self._timeout, client)
            content, headers = await _while_there(request, work)
        return Response(content, headers=headers)

    async def numbers(self, request: Request) -> Response:
        text = self._metrics.text(self._service.boards(), self._service.counts())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _live(request: Request) -> Response:
    return _said({"live": True})


async def _about(request: Request) -> Response:
    return _said({"name": "mica", "version": __version__, "extensions": ["binary_tensor_data"]})


async def _not_found(request: Request, exc: Any) -> Response:
    return _said({"error": "no such path" if exc.status_code == 404 else str(exc.detail)}, exc.status_code)


async def _bug(request: Request, exc: Exception) -> Response:
    return _said({"error": f"a bug of mica's: {type(exc).__name__}"}, 500)


def _said(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


def _guarded(handler: _Handler, token: str | None) -> _Handler:
    """The handler behind a token, where there is one, its errors as answers."""

    async def handle(request: Request) -> Response:
        try:
            if token and not _has_token(request.headers.get("authorization", ""), token):
                response = _said({"error": "a token is needed: Authorization: Bearer ..."}, 401)
                response.headers["WWW-Authenticate"] = "Bearer"
                return response
            return await handler(request)
        except ApiError as e:
            return _said({"error": str(e)}, e.status)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it

    return handle


def _has_token(header: str, token: str) -> bool:
    kind, _, given = header.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


async def _read(request: Request, most: int, add: Callable[[bytes], None]) -> None:
    """All of the body, of at most so many bytes. Raises ApiError, and starlette's ClientDisconnect."""
    given = request.headers.get("content-length", "")
    announced = int(given) if given.isdecimal() and len(given) < 20 else 0
    count = 0
    try:
        async for piece in request.stream():
            count += len(piece)
            if max(announced, count) > most:
                raise ApiError(413, f"a body of this model has at most {most:,} bytes")
            add(piece)
    except door.TooMuch:
        raise ApiError(503, "too many large bodies are under way") from None


async def _while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it if the client has gone. Raises starlette's ClientDisconnect."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        del task, gone  # an error of the task has this frame, which would keep the body until the next collection

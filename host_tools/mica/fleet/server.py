"""`mica fleet serve`: Open Inference Protocol v2 and /metrics over HTTP, with starlette and uvicorn.

    GET  /v2, /v2/health/live, /v2/health/ready, /v2/models, /v2/models/M, /v2/models/M/ready     (M: also M/versions/1)
    POST /v2/models/M/infer                                                           GET /metrics

An error is {"error": one line}: 400 a bad request, 401 no token, 404 no such model, 413 too large, 415 compressed, 500 the boards gave
it up, 503 no board can answer now, 504 none has in time. A token is asked for everything but health. door.py has the bounds of what a client may take.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mica.errors import MicaError
from mica.fleet import door, inference_api
from mica.fleet.ask import infer_body
from mica.fleet.inference_api import ApiError
from mica.fleet.metrics import Metrics
from mica.fleet.service import Service
from mica.link.board import Say

T = TypeVar("T")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BODIES = 48 << 20  # bytes of all bodies that are under way
_HEAD = 16384  # bytes of a request's head
_SWITCH_SECONDS = (
    0.0005  # a thread with much to do lets another one go on after that; Python's own is ten times as long
)


class Server:
    """Listens from the start on; run() answers, until stop() or Ctrl-C. Raises MicaError where it cannot listen."""

    def __init__(self, host: str, port: int, token: str | None, say: Say = lambda line: None) -> None:
        try:
            import starlette.applications
            import uvicorn  # noqa: F401
        except ImportError as e:
            raise MicaError(
                f"the Python package {(e.name or '').partition('.')[0]} is missing",
                todo="pip install mica[serve], or pip install starlette uvicorn",
            ) from None
        del starlette
        if host not in LOOPBACK and not token:
            raise MicaError(
                f"{host} can be reached from other machines",
                todo="give --token-file with a token that clients have to send, or listen on 127.0.0.1",
            )
        if not 0 <= port < 65536:
            raise MicaError(f"port is {port}", todo="expected 1 to 65535, or 0 for any that is free")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as e:
            raise MicaError(f"{host}:{port}: cannot be listened at: {e.strerror or e}") from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._loopback = host in LOOPBACK
        self._token = token
        self._remarks = door.Remarks(say)
        self._server: Any = None
        self._stopped = False

    def run(self, service: Service, metrics: Metrics, timeout: float, ready: Callable[[], None] = lambda: None) -> None:
        """timeout: seconds until a request is answered with 504. `ready` is called when all is there."""
        import uvicorn

        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).handlers = [self._remarks]
            logging.getLogger(name).propagate = False
        sys.setswitchinterval(_SWITCH_SECONDS)
        connections = door.Connections(door.most_connections(), self._remarks)

        async def look() -> None:
            asyncio.get_running_loop().set_exception_handler(self._remarks.in_loop)
            self._socket.listen(door.QUEUE)
            await connections.look()

        config = uvicorn.Config(
            application(service, metrics, self._token, timeout, self._loopback),
            http=connections.protocol(),
            ws="none",
            loop="asyncio",
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            backlog=door.BACKLOG,
            h11_max_incomplete_event_size=_HEAD,
            callback_notify=look,
            timeout_notify=0,
            timeout_graceful_shutdown=round(timeout) + 5,
        )
        self._server = uvicorn.Server(config)
        if self._stopped:
            return
        ready()
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """From any thread."""
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        self._socket.close()


def application(service: Service, metrics: Metrics, token: str | None, timeout: float, loopback: bool) -> Any:
    """The ASGI application. loopback: only this machine's names are taken for a host's, so that no web page can ask through a browser."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    bodies = door.Bodies(_BODIES)

    def said(content: Any, status: int = 200) -> Response:
        return Response(json.dumps(content), status, media_type="application/json")

    def guarded(handler: Callable[[Request], Any], is_open: bool = False) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            try:
                if token and not is_open and not _has_token(request.headers.get("authorization", ""), token):
                    response = said({"error": "a token is needed: Authorization: Bearer ..."}, 401)
                    response.headers["WWW-Authenticate"] = "Bearer"
                    return response
                found: Response = await handler(request)
                return found
            except ApiError as e:
                return said({"error": str(e)}, e.status)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody reads it

        return handle

    def named(request: Request) -> str:
        name: str = request.path_params["name"]
        if name not in service.models or request.path_params.get("version", "1") != "1":
            raise ApiError(404, f"no model {name[:64]!r} is served here; there is {', '.join(service.models)}")
        return name

    async def live(request: Request) -> Response:
        return said({"live": True})

    async def ready(request: Request) -> Response:
        is_ready = all(service.is_ready(name) for name in service.models)
        return said({"ready": is_ready}, 200 if is_ready else 400)

    async def about(request: Request) -> Response:
        from mica import __version__

        return said({"name": "mica", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def models(request: Request) -> Response:
        return said({"models": [{"name": name} for name in service.models]})

    async def model(request: Request) -> Response:
        name = named(request)
        return said(inference_api.metadata(name, service.models[name]))

    async def model_ready(request: Request) -> Response:
        name = named(request)
        is_ready = service.is_ready(name)
        return said({"name": name, "ready": is_ready}, 200 if is_ready else 400)

    async def infer(request: Request) -> Response:
        name = named(request)
        if request.headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "the body is compressed")
        length = request.headers.get(inference_api.LENGTH)
        client = request.client.host if request.client else ""
        with bodies.body() as (body, add, whole):
            await _read(request, inference_api.largest_body(service.models[name]), add)
            whole()
            work = infer_body(service, metrics, name, body, length, timeout, client)
            content, headers = await _while_there(request, work)
        return Response(content, headers=headers)

    async def numbers(request: Request) -> Response:
        text = metrics.text(service.boards(), service.counts())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    routes = [
        Route("/v2", guarded(about)),
        Route("/v2/models", guarded(models)),
        Route("/v2/health/live", guarded(live, is_open=True)),
        Route("/v2/health/ready", guarded(ready, is_open=True)),
        Route("/metrics", guarded(numbers)),
    ]
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(path, guarded(model)),
            Route(path + "/ready", guarded(model_ready)),
            Route(path + "/infer", guarded(infer), methods=["POST"]),
        ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]", "::1", "["])]

    async def not_found(request: Request, exc: Any) -> Response:
        return said({"error": "no such path" if exc.status_code == 404 else str(exc.detail)}, exc.status_code)

    async def bug(request: Request, exc: Exception) -> Response:
        return said({"error": f"a bug of mica's: {type(exc).__name__}"}, 500)

    handlers: Any = {404: not_found, 405: not_found, Exception: bug}
    return Starlette(routes=routes, middleware=middleware if loopback else [], exception_handlers=handlers)


def _has_token(header: str, token: str) -> bool:
    kind, _, given = header.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


async def _read(request: Any, most: int, add: Callable[[bytes], None]) -> None:
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


async def _while_there(request: Any, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; it is given up where the client has gone. Raises starlette's ClientDisconnect."""
    from starlette.requests import ClientDisconnect

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

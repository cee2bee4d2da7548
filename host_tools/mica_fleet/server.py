"""`mica fleet serve` over HTTP: where it listens, and with what of uvicorn. http_api.py has what is answered;
door.py has the bounds."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

from mica.errors import MicaError
from mica.link.board import Say
from mica_fleet import door
from mica_fleet.metrics import Metrics
from mica_fleet.service import Service

LOOPBACK = ("127.0.0.1", "::1", "localhost")
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
                todo="pip install 'mica-mcu[fleet]'",
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

        from mica_fleet.http_api import application  # here: it needs starlette

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

"""Serves the page on this computer: its files, and what a model that somebody drops costs on boards (POST facts)."""

from __future__ import annotations

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mica.errors import MicaError
from mica.web import site

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
}
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MOST_BYTES = 64 << 20  # of a model that is sent


class Server(ThreadingHTTPServer):
    """A server on this computer. It has the port; nothing is answered before serve_forever(), which is the caller's."""

    files: dict[str, Path]

    def show(self, folder: Path) -> None:
        """Serve the files of this folder."""
        self.files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def bind(port: int) -> Server:
    """Take port 127.0.0.1:port, 0: any that is free. Raises OSError."""
    return Server(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "mica"
    sys_version = ""
    timeout = 30  # seconds for each read of what a client sends

    def do_GET(self) -> None:
        name = unquote(urlsplit(self.path).path).removeprefix("/") or "index.html"
        path = self.server.files.get(name)
        if not self._is_ours() or path is None:
            self._send(404, b"not found", "text/plain")
            return
        self._send(200, path.read_bytes(), TYPES.get(path.suffix, "application/octet-stream"))

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not self._is_ours() or urlsplit(self.path).path != "/facts":
            self._send(404, b"not found", "text/plain")
        elif not size.isdecimal() or int(size) > MOST_BYTES:
            self._send(413, f"expected at most {MOST_BYTES:,} bytes".encode(), "text/plain")
        else:
            try:
                body = self.rfile.read(int(size))
                if len(body) < int(size):
                    raise ConnectionAbortedError
                self._send(200, json.dumps(site.costs(body)).encode(), TYPES[".json"])
            except MicaError as error:
                self._send(422, str(error).encode(), "text/plain")

    def _is_ours(self) -> bool:
        """False for a request under another name of this computer, or from a page of others."""
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin")
        return host.rpartition(":")[0] in ("127.0.0.1", "localhost") and origin in (None, f"http://{host}")

    def _send(self, code: int, body: bytes, kind: str) -> None:
        small = "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1000
        body = gzip.compress(body, 6) if small else body
        self.send_response(code)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Content-Security-Policy": POLICY}
        headers |= {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
        for name, value in (headers | ({"Content-Encoding": "gzip"} if small else {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed of requests."""

"""`mica fleet serve`; fleet.py has its arguments."""

import argparse
import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mica.cli import target, text
from mica.cli.text import say
from mica.errors import MicaError
from mica.file import codec
from mica_fleet import inference_api
from mica_fleet.cli.secret import first_line
from mica_fleet.dispatch import Settings
from mica_fleet.home_assistant import Discovery
from mica_fleet.jetstream import Gateway, parse_address
from mica_fleet.metrics import Metrics
from mica_fleet.open import is_fleet, links_of
from mica_fleet.server import Server
from mica_fleet.service import Service
from mica_fleet.site import WATCHER, is_site, read_site
from mica_fleet.stages import Route

_HTTP = "127.0.0.1:8080"
_LEAST_TOKEN = 16  # characters


def serve(args: argparse.Namespace) -> int:
    address = parse_address(args.queue) if args.queue else None
    http = args.http or (None if address else _HTTP)
    host, port = _address(http) if http else ("", 0)
    timeout, audit = _seconds(args.timeout), _share(args.audit)
    token = _token(args.token_file) if args.token_file else None
    models: dict[str, list[bytes]] = {}
    for path in args.models:
        files = target.read_parts(path)
        name = Path(path).name.removesuffix(".mica")
        if len(files) > 1:
            name = re.sub(r"\.\d+of\d+$", "", name)
        if name in models:
            raise MicaError(f"two models are called {name}")
        models[name] = files
        inference_api.check(codec.decode(files[0]), name)
    where = args.fleet if is_fleet(args.fleet) else f"fleet:{args.fleet}"
    links = links_of([data for files in models.values() for data in files], where, say, spread=len(models) == 1)
    reasons: list[str] = []
    with contextlib.ExitStack() as stack:
        doors: list[Server | Gateway] = []
        if http:
            doors.append(stack.enter_context(contextlib.closing(Server(host, port, token, say))))
        if address:
            doors.append(Gateway(address, list(models), say))

        def stop() -> None:
            for door in doors:
                door.stop()

        def broken(reason: str) -> None:
            reasons.append(reason)
            stop()

        metrics = Metrics()
        home = _home_assistant(args, models, stack)
        service = stack.enter_context(
            contextlib.closing(Service(models, links, say, Settings(audit=audit), broken, answered=home))
        )
        threading.Thread(target=_end_with_parent, args=(stop,), daemon=True).start()
        for door in doors[1:]:

            def beside(door: Server | Gateway = door) -> None:
                try:
                    door.run(service, metrics, timeout)
                finally:
                    stop()

            thread = threading.Thread(target=beside, name="queue")
            thread.start()
            stack.callback(thread.join)
            stack.callback(stop)
        doors[0].run(service, metrics, timeout, lambda: _say_ready(args, doors, list(models)))
    if reasons:
        raise MicaError(reasons[0])
    return 0


def _home_assistant(
    args: argparse.Namespace, models: dict[str, list[bytes]], stack: contextlib.ExitStack
) -> Callable[[str, bytes, str], None]:
    """The function that gets each answer, to pass it on to Home Assistant."""
    if not args.ha:
        return lambda name, outputs, board: None
    if not is_site(args.fleet.removeprefix("fleet:")):
        raise MicaError(f"--ha: {args.fleet} has no broker that Home Assistant could listen to", todo="mica fleet init")
    site = read_site(args.fleet.removeprefix("fleet:"))
    whole = {name: Route(files).whole for name, files in models.items()}
    discovery = stack.enter_context(contextlib.closing(Discovery(site, whole)))
    say(f"Home Assistant finds the fleet at {site.where}, as user {WATCHER} with the password in {site.path}")
    return discovery.answered


def _say_ready(args: argparse.Namespace, doors: list[Server | Gateway], models: list[str]) -> None:
    urls = [door.url for door in doors if isinstance(door, Server)]
    queues = [f"{door.address.stream} at {door.address.where}" for door in doors if isinstance(door, Gateway)]
    if args.json:
        text.emit_json({"url": next(iter(urls), None), "queue": next(iter(queues), None), "models": models})
    else:
        print(f"{' and '.join(urls + [f'the queue {q}' for q in queues])}: {', '.join(models)}", flush=True)
    sys.stdout.flush()


def _end_with_parent(stop: Callable[[], None]) -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    stop()


def _address(given: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9_.-]+)):(\d{1,5})", given)
    if match is None:
        raise MicaError(f"--http {given}", todo="expected such as 127.0.0.1:8080 or [::1]:8080")
    return match[1] or match[2], int(match[3])


def _seconds(given: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)", given)
    if match is None or not float(match[1]):
        raise MicaError(f"--timeout {given}", todo="expected such as 500ms, 30s or 2m")
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[2]]


def _share(given: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", given)
    if match is None or float(match[1]) > 100:
        raise MicaError(f"--audit {given}", todo="expected such as 1%, up to 100%")
    return float(match[1]) / 100


def _token(path: str) -> str:
    token = first_line(path)
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise MicaError(
            f"{path}: its first line is no token", todo=f"{_LEAST_TOKEN} ASCII characters or more, no blanks"
        )
    return token

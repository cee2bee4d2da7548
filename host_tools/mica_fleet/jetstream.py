"""Requests from a NATS JetStream work queue, and answers to it: `mica fleet serve --queue nats://HOST:PORT/NAME`.

    stream NAME            subjects NAME.ask.MODEL      a work queue: a message is gone once it is acknowledged
    stream NAME-answers    subjects NAME.answer.ID      the last message of each; a day is kept

A request's body is that of the Open Inference Protocol v2, as over HTTP.
Its ID is the header Nats-Msg-Id, or its number in the stream where it has none. The answer has the header Mica-Status,
200 or an HTTP error's number; it is stored first, and the request is acknowledged after that. So a gateway, its
machine or the server may die: what was not acknowledged is given to another gateway after ACK_SECONDS.
One file gives the same bytes everywhere, so an answer that is stored twice is the same answer.

Each model has a consumer (MODEL) that all gateways share; a gateway takes requests of models that its boards have,
a few for each board. The consumer stays when they end, and requests wait for the next one. A request for a model that
never had a gateway has the answer 404, once a gateway has seen it for the time after which it gives up others.
"""

import asyncio
import contextlib
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from mica.errors import MicaError
from mica.link.board import Say
from mica_fleet import inference_api
from mica_fleet.ask import infer_body
from mica_fleet.inference_api import ApiError
from mica_fleet.metrics import Metrics
from mica_fleet.service import Service

DEFAULT = "mica"
PORT = 4222
STATUS = "Mica-Status"
MESSAGE_ID = "Nats-Msg-Id"
ACK_SECONDS = 3.0
MOST_DELIVERIES = 20  # then a request is given up: it may be what gateways die of
_EACH_BOARD = 4  # requests that are under way
_MOST = 64  # of one model
_DAY = 86400.0
_CONNECT_SECONDS = 3.0
_PULL_SECONDS = 1.0
_TRIES = 2  # of a server that does not answer in time, before the first request
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True)
class Address:
    """`named`: the stream was asked for, so it has to be there; otherwise it is made."""

    url: str = field(repr=False)  # may have a password
    where: str
    stream: str
    named: bool

    @property
    def tls(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self.url.startswith("tls:") else None

    @property
    def answers(self) -> str:
        return f"{self.stream}-answers"


def parse_address(text: str) -> Address:
    """nats://[USER:PASSWORD@]HOST[:PORT][/STREAM]. Raises MicaError."""
    wrong = MicaError(
        f"--queue {_without_password(text)}",
        todo="expected such as nats://127.0.0.1:4222 or nats://USER:PASSWORD@HOST:4222/STREAM",
    )
    try:
        parts = urlsplit(text)
        port = PORT if parts.port is None else parts.port
        host = parts.hostname or ""
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("nats", "tls") or not re.fullmatch(r"[A-Za-z0-9_.:-]+", host) or not port:
        raise wrong
    stream = parts.path.strip("/")
    if parts.query or parts.fragment or (stream and not _NAME.fullmatch(stream)):
        raise wrong
    if parts.password is not None and not unquote(parts.username or ""):
        raise wrong
    shown = f"[{host}]" if ":" in host else host
    login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return Address(f"{parts.scheme}://{login}{shown}:{port}", f"{shown}:{port}", stream or DEFAULT, bool(stream))


def _without_password(text: str) -> str:
    return re.sub(r"//[^@/]*@", "//...@", text)


class _NoAnswer(MicaError):
    """In time."""


class Gateway:
    """Takes requests of a queue to a service. Raises MicaError where the queue cannot be used as it is."""

    def __init__(self, address: Address, models: list[str], say: Say) -> None:
        try:
            import nats  # noqa: F401
        except ImportError:
            raise MicaError("the Python package nats-py is missing", todo="pip install 'mica-mcu[fleet]'") from None
        for name in models:
            if not _NAME.fullmatch(name):
                raise MicaError(
                    f"a model that is called {name!r} cannot be asked for in a queue",
                    todo="letters, digits, - and _ alone",
                )
        self.address, self._models, self._say = address, models, say
        self._stop = threading.Event()
        self._lost = False
        asyncio.run(self._prepare())

    def run(self, service: Service, metrics: Metrics, timeout: float, ready: Callable[[], None] = lambda: None) -> None:
        """Until stop(), or Ctrl-C. timeout: seconds until a request is given back."""
        asyncio.run(self._run(service, metrics, timeout, ready))

    def stop(self) -> None:
        """From any thread."""
        self._stop.set()

    # ---- before the first request

    async def _prepare(self) -> None:
        """Make the streams and consumers that are missing. A slow server is asked again. Raises MicaError."""
        for left in reversed(range(_TRIES)):
            try:
                return await self._prepare_once()
            except _NoAnswer:
                if not left:
                    raise

    async def _connect(self, **how: Any) -> Any:
        import nats

        async def quiet(e: Exception) -> None:
            self._first = getattr(self, "_first", e)

        a = self.address
        return await nats.connect(a.url, connect_timeout=_CONNECT_SECONDS, error_cb=quiet, tls=a.tls, **how)

    async def _prepare_once(self) -> None:
        from nats.errors import AuthorizationError, NoServersError
        from nats.errors import Error as NatsError

        a = self.address
        try:
            once = self._connect(allow_reconnect=False, max_reconnect_attempts=1, reconnect_time_wait=0.1)
            nc = await asyncio.wait_for(once, 2 * _CONNECT_SECONDS)
        except (NatsError, OSError, ValueError) as e:
            first = getattr(self, "_first", e)
            for found in (e, first):
                if isinstance(found, AuthorizationError) or "uthorization" in str(found):
                    raise MicaError(
                        f"the NATS server at {a.where} refuses this user or password",
                        todo="give them as nats://USER:PASSWORD@HOST",
                    ) from None
            reason = first if isinstance(e, NoServersError) else e
            number = getattr(reason, "errno", None)
            why = os.strerror(number) if number and number > 0 else str(reason) or "it does not answer"
            kind = _NoAnswer if isinstance(reason, TimeoutError) else MicaError
            raise kind(
                f"no NATS server at {a.where}: {why}",
                todo="start one: nats-server -js -sd FOLDER (Debian has nats-server)",
            ) from None
        try:
            await self._streams(nc.jetstream(timeout=5))
        finally:
            await nc.close()

    async def _streams(self, js: Any) -> None:
        from nats.errors import Error as NatsError
        from nats.js import api
        from nats.js.errors import APIError, NotFoundError

        a = self.address
        try:
            await js.account_info()
        except TimeoutError:
            raise self._silent() from None
        except NatsError:
            raise MicaError(
                f"the NATS server at {a.where} has no JetStream",
                todo="start it with -js, and -sd for where it keeps its files",
            ) from None
        asks, answers = f"{a.stream}.ask.*", f"{a.stream}.answer.*"
        desired = {
            a.stream: api.StreamConfig(
                name=a.stream, subjects=[asks], retention=api.RetentionPolicy.WORK_QUEUE, storage=api.StorageType.FILE
            ),
            a.answers: api.StreamConfig(
                name=a.answers, subjects=[answers], max_msgs_per_subject=1, max_age=_DAY, storage=api.StorageType.FILE
            ),
        }
        try:
            for name, config in desired.items():
                try:
                    found = (await js.stream_info(name)).config
                except NotFoundError:
                    if a.named and name == a.stream:
                        raise MicaError(
                            f"the NATS server at {a.where} has no stream {name}",
                            todo=f"make it (subjects {asks}, retention workqueue), or name none: {DEFAULT} is made",
                        ) from None
                    await js.add_stream(config)
                    continue
                if not set(config.subjects or ()) <= set(found.subjects or ()):
                    raise MicaError(
                        f"the stream {name} has the subjects {', '.join(found.subjects or ['none'])}",
                        todo=f"expected {', '.join(config.subjects or ())} among them",
                    )
                if config.retention == api.RetentionPolicy.WORK_QUEUE != found.retention:
                    raise MicaError(f"the stream {name} is no work queue", todo="make it with retention workqueue")
            for model in self._models:
                consumer = api.ConsumerConfig(
                    durable_name=model,
                    filter_subject=f"{a.stream}.ask.{model}",
                    ack_policy=api.AckPolicy.EXPLICIT,
                    ack_wait=ACK_SECONDS,
                    max_ack_pending=20_000,
                )
                try:
                    await js.consumer_info(a.stream, model)  # another gateway has made it
                except NotFoundError:
                    await js.add_consumer(a.stream, consumer)
        except APIError as e:
            raise MicaError(f"the NATS server at {a.where}: {e.description or e}") from None
        except TimeoutError:
            raise self._silent() from None
        except (NatsError, OSError) as e:
            raise MicaError(f"the NATS server at {a.where}: {e}") from None

    def _silent(self) -> MicaError:
        return _NoAnswer(
            f"the NATS server at {self.address.where} does not answer", todo="it may be at work: try again"
        )

    # ---- at work

    async def _run(self, service: Service, metrics: Metrics, timeout: float, ready: Callable[[], None]) -> None:
        async def lost() -> None:
            if not self._stop.is_set() and not self._lost:
                self._lost = True
                self._say(f"the NATS server at {self.address.where} is lost")

        async def back() -> None:
            self._lost = False
            self._say(f"the NATS server at {self.address.where} is back")

        nc = await self._connect(
            max_reconnect_attempts=-1, reconnect_time_wait=0.3, disconnected_cb=lost, reconnected_cb=back
        )
        js = nc.jetstream(timeout=2)
        workers = [
            asyncio.create_task(self._worker(js, service, metrics, timeout, name, number))
            for name in self._models
            for number in range(_MOST)
        ]
        workers.append(asyncio.create_task(self._refuse_unserved(js, timeout)))
        ready()
        try:
            while not self._stop.is_set():
                await asyncio.sleep(0.1)
                for worker in workers:
                    if worker.done():
                        worker.result()  # it never ends but on a bug
        finally:
            self._stop.set()
            await _cancel(set(workers))
            closing = asyncio.create_task(nc.close())
            await asyncio.wait({closing}, timeout=2)
            await _cancel({closing})

    async def _worker(
        self, js: Any, service: Service, metrics: Metrics, timeout: float, name: str, number: int
    ) -> None:
        """One request after the other, where there are boards enough for worker `number`."""
        from nats.errors import Error as NatsError

        subscription = None
        while not self._stop.is_set():
            if number >= _EACH_BOARD * service.owners(name):
                await asyncio.sleep(0.2)
                continue
            try:
                if subscription is None:
                    subscription = await js.pull_subscribe_bind(consumer=name, stream=self.address.stream)
                (message,) = await subscription.fetch(1, timeout=_PULL_SECONDS)
            except (NatsError, OSError):
                await asyncio.sleep(0.01 if not self._lost else 0.3)
                continue
            try:
                await self._serve(js, service, metrics, timeout, name, message)
            except (NatsError, OSError):
                pass  # it is given to somebody again
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):
                    await message.nak()  # at once
                raise

    async def _serve(
        self, js: Any, service: Service, metrics: Metrics, timeout: float, name: str, message: Any
    ) -> None:
        headers = message.headers or {}
        try:
            if message.metadata.num_delivered > MOST_DELIVERIES:
                raise ApiError(500, f"given up: it was taken {MOST_DELIVERIES} times, and never answered")
            work = infer_body(service, metrics, name, message.data, headers.get(inference_api.LENGTH), timeout)
            body, said = await _at_work(work, message)
            said[STATUS] = "200"
        except ApiError as e:
            if e.status in (503, 504):  # another gateway may have what this one has not
                await message.nak(delay=1)
                return
            body, said = _error(e.status, str(e))
        await self._store(js, self._answer(headers, message.metadata.sequence.stream), body, said)
        await message.ack_sync(timeout=2)

    async def _refuse_unserved(self, js: Any, seconds: float) -> None:
        """Refuse requests that nobody takes, when their subject has had some for so many seconds."""
        from nats.errors import Error as NatsError

        since: dict[str, float] = {}
        while not self._stop.is_set():
            with contextlib.suppress(NatsError, OSError):
                info = await js.stream_info(self.address.stream, subjects_filter=f"{self.address.stream}.ask.*")
                now = time.monotonic()
                since = {s: since.get(s, now) for s in info.state.subjects or {}}
                for subject in [s for s, first in since.items() if now - first >= seconds]:
                    await self._refuse(js, subject)
            await asyncio.sleep(_PULL_SECONDS)

    async def _refuse(self, js: Any, subject: str) -> None:
        """Answer and delete all requests of a subject, unless a gateway that has its model has made a consumer."""
        from nats.js.errors import NotFoundError

        stream, name = self.address.stream, subject.rpartition(".")[2]
        with contextlib.suppress(NotFoundError):
            if _NAME.fullmatch(name) and await js.consumer_info(stream, name):
                return
        body, said = _error(404, f"no gateway has the model {name[:64]!r}")
        with contextlib.suppress(NotFoundError):  # no more of them
            while not self._stop.is_set():
                # not the last one: nats-server 2.9 finds no other when that is deleted
                message = await js.get_msg(stream, seq=1, subject=subject, next=True)
                await self._store(js, self._answer(message.headers or {}, message.seq), body, said)
                await js.delete_msg(stream, message.seq)

    def _answer(self, headers: Mapping[str, str], number: int) -> str:
        key = headers.get(MESSAGE_ID, "")
        return f"{self.address.stream}.answer.{key if _ID.fullmatch(key) else number}"

    async def _store(self, js: Any, subject: str, body: bytes, headers: dict[str, str]) -> None:
        """Until it is. An answer that is larger than the server takes becomes an error."""
        from nats.errors import Error as NatsError
        from nats.errors import MaxPayloadError

        while not self._stop.is_set():
            try:
                await js.publish(subject, body, timeout=2, stream=self.address.answers, headers=headers)
                return
            except MaxPayloadError:
                text = f"the answer has {len(body)} bytes, more than the NATS server takes"
                body, headers = _error(500, text)
            except (NatsError, OSError):
                await asyncio.sleep(0.2)
        raise TimeoutError  # it is not stored, so it is not acknowledged


def _error(status: int, text: str) -> tuple[bytes, dict[str, str]]:
    return json.dumps({"error": text}).encode(), {STATUS: str(status)}


async def _at_work(work: Awaitable[tuple[bytes, dict[str, str]]], message: Any) -> tuple[bytes, dict[str, str]]:
    """Tells the server meanwhile that somebody is at it."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=ACK_SECONDS / 3)
            if done:
                return task.result()
            with contextlib.suppress(Exception):
                await message.in_progress()
    finally:
        task.cancel()


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they end, for 5 seconds at most: nats-py loses a cancellation that comes while it flushes."""
    for _ in range(10):
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        ended, tasks = await asyncio.wait(tasks, timeout=0.5)
        await asyncio.gather(*ended, return_exceptions=True)  # nobody asks for their results

from collections.abc import Callable
from typing import Any

class MQTTException(Exception): ...

class Client:
    sock: Any
    cb: Any
    dropped: int
    server: str
    port: int
    wrap: Any
    client_id: str | bytes
    user: str | bytes | None
    password: str | bytes | None
    keepalive: int
    timeout_ms: int
    largest: int
    def __init__(
        self,
        client_id: str | bytes,
        server: str,
        port: int = 1883,
        user: str | bytes | None = None,
        password: str | bytes | None = None,
        keepalive: int = 0,
        timeout: float = 5,
        largest: int = 65536,
        wrap: Callable[[Any], Any] | None = None,
    ) -> None: ...
    def set_callback(self, f: Callable[[bytes, memoryview], object]) -> None: ...
    def set_last_will(self, topic: str | bytes, msg: str | bytes, retain: bool = False, qos: int = 0) -> None: ...
    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def close(self) -> None: ...
    def publish(self, topic: str | bytes, msg: str | bytes, retain: bool = False, qos: int = 0) -> None: ...
    def subscribe(self, topic: str | bytes, qos: int = 0) -> None: ...
    def ping(self) -> None: ...
    def check_msg(self, wait: int = 0) -> None: ...
    def wait_msg(self) -> None: ...

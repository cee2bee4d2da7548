from typing import Any

VERSION: int
OK: int
BUSY: int
NO_MODEL: int
BAD_REQUEST: int
FAILED: int
QUEUE: int
LARGEST: int

def run(path: str = "fleet.json") -> None: ...
def find_models() -> list[str]: ...
def connect_wifi(ssid: str, password: str, seconds: float = 20) -> None: ...

class Agent:
    settings: dict[str, Any]
    name: str
    keepalive: int
    client: Any
    boot: int
    session: int
    runs: int
    errors: int
    def __init__(self, settings: dict[str, Any], client: Any = None) -> None: ...
    def work(self) -> None: ...
    def serve(self) -> None: ...
    def about(self) -> dict[str, Any]: ...
    def compute(self, model: Any, inputs: Any) -> bytes: ...

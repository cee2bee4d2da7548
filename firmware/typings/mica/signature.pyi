from typing import Any

MAGIC: bytes
LEAST: int

def check(source: Any, key: bytes) -> None: ...
def hmac(key: bytes, data: Any) -> bytes: ...

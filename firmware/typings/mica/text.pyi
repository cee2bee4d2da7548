from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from .model import Model

class Said:
    now: tuple[Any, ...]  # next position, last token, the Text that made it, how far that is
    def __init__(self, m: Any, facts: Any) -> None: ...
    def prepare(self, m: Any) -> None: ...

class Text(Iterator[str], AsyncIterator[str]):
    @property
    def tokens(self) -> int: ...  # made so far
    def __init__(
        self,
        model: Model,
        prompt: str,
        max_tokens: int | None,
        temperature: float,
        top_k: int,
        stop: str | Sequence[str] | None,
        seed: int,
        slice_us: int,
    ) -> None: ...
    def __iter__(self) -> Text: ...
    def __aiter__(self) -> Text: ...
    def __next__(self) -> str: ...
    async def __anext__(self) -> str: ...

def whole(data: bytes) -> int: ...
def decode(data: bytes) -> str: ...
def generate(
    model: Model,
    prompt: str,
    max_tokens: int | None = None,
    temperature: float = 0,
    top_k: int = 0,
    stop: str | Sequence[str] | None = None,
    seed: int = 0,
    slice_us: int = 1000,
) -> Text: ...
def complete(
    model: Model,
    prompt: str,
    max_tokens: int | None = None,
    temperature: float = 0,
    top_k: int = 0,
    stop: str | Sequence[str] | None = None,
    seed: int = 0,
) -> str: ...

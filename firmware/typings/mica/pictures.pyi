from typing import Any

import _mica

FORMATS: tuple[str, ...]

class Picture:
    colours: str
    width: int
    height: int
    def __init__(self, m: _mica.Model) -> None: ...
    def see(
        self,
        frame: Any,
        width: int,
        height: int,
        format: str,
        part: tuple[int, int, int, int] | None = None,
        area: bool | None = None,
    ) -> None: ...
    def fill(self, begin: int, end: int, buffer: Any) -> None: ...

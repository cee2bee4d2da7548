from mica.audio import Ring

class Microphone:
    rate: int

    def __init__(self, sck: int, ws: int, sd: int, rate: int = 16000, sm: int = 7) -> None: ...
    def ring(self, samples: int, block: int) -> Filled: ...

class Filled(Ring):
    count: int
    size: int
    block: int
    by_irq: bool

    def __init__(self, samples: int, block: int, rate: int, sck: int, sd: int, sm: int) -> None: ...
    def close(self) -> None: ...

from collections.abc import Callable

from .layer import Layer
from .model import Model

def selftest(model: Model, feed: Callable[[], object] | None = None) -> Layer | None: ...

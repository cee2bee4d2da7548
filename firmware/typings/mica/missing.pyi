"""What to do where the engine is missing: `import mica` raises this text."""

def line(error: Exception) -> str:
    """Return one line: what is missing, and the command that brings it. `error`: what `import _mica` raised."""

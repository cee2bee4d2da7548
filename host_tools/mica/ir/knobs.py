"""All environment variables that change the behaviour of mica."""

import os
import sys

# MICA_DUMP=1: print the graph after each pass, to stderr.
DUMP = bool(int(os.environ.get("MICA_DUMP", "0") or "0"))

# MICA_KEEP_DEAD_CHANNELS=1: leave out no channels, so that a model's layers are those of the ONNX file.
KEEP_DEAD_CHANNELS = bool(int(os.environ.get("MICA_KEEP_DEAD_CHANNELS", "0") or "0"))


def dump(stage: str, graph: object) -> None:
    """Prints what a stage made, where MICA_DUMP asks for it."""
    if DUMP:
        print(f"--- after {stage}\n{graph}", file=sys.stderr)

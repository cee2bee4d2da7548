"""Environment variables that change what mica does, all in one place."""

from __future__ import annotations

import os

# MICA_DUMP=1: print the graph after each pass, to stderr.
DUMP = bool(int(os.environ.get("MICA_DUMP", "0") or "0"))

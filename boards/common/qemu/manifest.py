# Frozen beside mica on every emulated board.
freeze(".", "_boot.py")
include("$(MPY_DIR)/extmod/asyncio")

# Frozen beside mica: what the standard variant has, as far as it needs no micropython-lib.
include("$(MPY_DIR)/extmod/asyncio")

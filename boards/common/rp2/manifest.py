# Frozen beside mica on every RP2040 and RP2350: the port's module, asyncio, and a _boot.py of our own.
freeze("$(PORT_DIR)/modules", "rp2.py")
freeze(".", "_boot.py")
include("$(MPY_DIR)/extmod/asyncio")

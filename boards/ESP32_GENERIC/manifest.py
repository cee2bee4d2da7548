# Frozen beside mica: the port's own modules (its _boot.py mounts the file system).
freeze("$(PORT_DIR)/modules")
include("$(MPY_DIR)/extmod/asyncio")

# Frozen beside mica on every ESP32: the port's modules, asyncio, and a _boot.py of our own.
freeze("$(PORT_DIR)/modules", ("apa106.py", "espnow.py", "flashbdev.py", "inisetup.py"))
freeze(".", "_boot.py")
include("$(MPY_DIR)/extmod/asyncio")

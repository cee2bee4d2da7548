# Whether a ROMFS is mounted.
import os

print("rom" in os.listdir("/"))

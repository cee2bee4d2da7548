# The native modules that this firmware loads, and the folder that takes them, in hexadecimal.
import sys

print("mica:native", getattr(sys.implementation, "_mpy", 0))
for folder in sys.path:
    if folder.endswith("/lib") and not folder.startswith("/rom"):
        print("mica:lib", "".join(["%02x" % b for b in folder.encode()]))

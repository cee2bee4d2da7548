# Frozen into every firmware: the runtime package. A board's manifest includes this one after its port's own.
# With fallback=False the kernels in MicroPython stay out. What needs a network is in network.py.
import os

options.defaults(fallback=True)
files = sorted(name for name in os.listdir("mica") if name.endswith(".py") and name not in ("fleet.py", "mqtt.py"))
if options.fallback:
    files += sorted("fallback/" + name for name in os.listdir("mica/fallback") if name.endswith(".py"))
package("mica", files=files)

# Frozen into every firmware: the runtime package. A board's manifest includes this one after its port's own.
# With fallback=False the kernels in MicroPython stay out; with network=True what a board of a fleet runs comes in.
import os

options.defaults(fallback=True, network=False)
fleet = ("fleet.py", "fleet_push.py", "fleet_rom.py", "mqtt.py")
files = sorted(name for name in os.listdir("mica") if name.endswith(".py") and (options.network or name not in fleet))
if options.fallback:
    files += sorted("fallback/" + name for name in os.listdir("mica/fallback") if name.endswith(".py"))
package("mica", files=files)
